// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// api is the driver API as described: cuda.def joined with prototypes.tsv and versions.tsv.
type api struct {
	functions  []function        // cuda.def, in file order
	sets       []set             // cuda.def, in file order
	kinds      []*kind           // cuda.def, in file order
	handles    []string          // cuda.def: kinds of handles that only commands.def has
	old        map[string]string // older symbols to the newer ones
	prototypes map[string]string // symbol to C parameter list
	symbols    []string          // prototypes.tsv, in file order
	versions   []baseName        // versions.tsv, in file order
	room       string            // of the functions that are read now
}

// function is a line of cuda.def.
type function struct {
	number   int      // 0 for class local
	class    string   // call, post, raw, local
	custom   bool     // the exported symbol is written by hand
	noctx    bool     // needs no current context
	final    bool     // ends an object, although no parameter says so
	exact    bool     // its result is never an earlier call's error
	of       string   // what ends the object made: a parameter, ofHome, ofCurrent or ofNothing
	optional bool     // its answers may be left out
	step     bool     // the worker has a step around it
	work     bool     // it may give the GPU work
	sets     bool     // it sets something that lasts
	keys     []string // parameters that tell what it sets from what else it sets
	fill     string   // bits of the elements that it fills memory with
	op       bool     // not a function of the API
	room     string   // of both devices: package cuda/ROOM, soft/ROOM
	symbol   string   // exported symbol, or the name of the op
	params   []param
}

// param is a parameter of a function.
type param struct {
	name string
	code string // u, ou, h, d, o, ih, oh, ib, ob, is, in, on
	kind string // of a handle; of a scalar its set, if it has one
	of   *kind  // of a handle
	// of a buffer: the function of package known that says whether it may be passed on, "" for none
	test string
}

// baseName is a line of versions.tsv. Each version is (CUDA version, symbol), ascending.
type baseName struct {
	name      string
	legacy    []versioned
	perThread []versioned // empty: the same as legacy
}

type versioned struct {
	version int
	symbol  string
}

var suffix = regexp.MustCompile(`_v\d+$`)

// method is the function's name in Go: without "cu" and the version suffix.
func (f function) method() string {
	return suffix.ReplaceAllString(strings.TrimPrefix(f.symbol, "cu"), "")
}

// words is the number of argument words of a call or post on the wire.
func (f function) words() int {
	n := 0
	for _, p := range f.params {
		switch p.code {
		case "u", "h", "d":
			n++
		default:
			if p.buffer() {
				n += 2
			}
		}
	}
	return n
}

// ends says whether the function ends an object: the guest has forgotten it, so the command must be
// sent.
func (f function) ends() bool {
	for _, p := range f.params {
		if p.code == "d" {
			return true
		}
	}
	return f.final
}

// word says whether the parameter is one word on the wire.
func (p param) word() bool { return p.code == "u" || p.code == "h" || p.code == "d" }

// in says whether the parameter is a buffer that the worker reads.
func (p param) in() bool {
	return p.code == "ib" || p.code == "ih" || p.code == "in" || p.code == "si"
}

// buffer says whether the parameter is a reference and a length on the wire.
func (p param) buffer() bool {
	switch p.code {
	case "ib", "ob", "is", "ih", "oh", "in", "on", "si", "so":
		return true
	}
	return false
}

// structure says whether the parameter is a structure of a fixed size, p.kind.
func (p param) structure() bool { return p.code == "si" || p.code == "so" }

// counted says whether the answer has the length of what there was for an output buffer.
func (p param) counted() bool { return p.code == "oh" || p.code == "on" }

// native says whether the parameters are those of the C function, so that its call can be
// generated.
func (f function) native(a *api) bool {
	if f.op || f.class == "raw" || f.class == "local" {
		return false
	}
	list, ok := a.prototypes[f.symbol]
	if !ok {
		return false
	}
	n := 0
	if list != "void" {
		n = strings.Count(list, ",") + 1
	}
	for _, p := range f.params {
		if p.buffer() && p.code != "is" && !p.structure() {
			return false
		}
	}
	return n == len(f.params)
}

func parseAPI(dir string) (*api, error) {
	a := &api{prototypes: map[string]string{}, old: map[string]string{}}
	for _, f := range []struct {
		name string
		line func(string) error
	}{{"prototypes.tsv", a.prototype}, {"versions.tsv", a.version}, {"cuda.def", a.function}} {
		if err := eachLine(dir+"/"+f.name, f.line); err != nil {
			return nil, err
		}
	}
	if err := a.checkRooms(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir+"/cuda.def", err)
	}
	return a, nil
}

func eachLine(path string, line func(string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, err := readLines(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, l := range lines {
		if l.text == "" || strings.HasPrefix(l.text, "#") {
			continue
		}
		if err := line(l.text); err != nil {
			return fmt.Errorf("%s:%d: %w", path, l.number, err)
		}
	}
	return nil
}

func (a *api) prototype(line string) error {
	symbol, list, ok := strings.Cut(line, "\t")
	if !ok || a.prototypes[symbol] != "" {
		return fmt.Errorf("not a prototype, or a second one: %q", line)
	}
	a.prototypes[symbol] = list
	a.symbols = append(a.symbols, symbol)
	return nil
}

func (a *api) version(line string) error {
	f := strings.Split(line, "\t")
	if len(f) != 3 {
		return fmt.Errorf("want three fields: %q", line)
	}
	b := baseName{name: f[0]}
	for i, list := range []*[]versioned{&b.legacy, &b.perThread} {
		for _, w := range strings.Fields(f[i+1]) {
			v, symbol, _ := strings.Cut(w, "=")
			n, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			*list = append(*list, versioned{n, symbol})
		}
	}
	a.versions = append(a.versions, b)
	return nil
}
