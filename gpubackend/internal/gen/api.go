// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	structures "github.com/paracuda/paracuda/gpubackend/internal/gen/layout"
)

// api is the driver API as described: cuda.def joined with prototypes.tsv and versions.tsv.
type api struct {
	functions  []function        // cuda.def, in file order
	sets       []set             // cuda.def, in file order
	prototypes map[string]string // symbol to C parameter list
	symbols    []string          // prototypes.tsv, in file order
	versions   []baseName        // versions.tsv, in file order
}

// function is a line of cuda.def.
type function struct {
	number int    // 0 for class local
	class  string // call, post, raw, local
	custom bool   // the exported symbol is written by hand
	noctx  bool   // needs no current context
	final  bool   // ends something, although no parameter says so
	exact  bool   // its result is never an earlier call's error
	op     bool   // not a function of the API
	symbol string // exported symbol, or the name of the op
	params []param
}

// param is a parameter of a function.
type param struct {
	name string
	code string // u, ou, h, d, o, ih, oh, ib, ob, is, in, on
	kind string // of a handle; of a scalar its set, if it has one
	test string // of a buffer: the function of package known that says whether it may be passed on, "" for none
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

// ends says whether the function ends something: the guest has forgotten it, so the command must be sent.
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
func (p param) in() bool { return p.code == "ib" || p.code == "ih" || p.code == "in" || p.code == "si" }

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

// counted says whether an output buffer is answered with how much there was to put in it.
func (p param) counted() bool { return p.code == "oh" || p.code == "on" }

// native says whether the parameters are those of the C function, so that its call can be generated.
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
	a := &api{prototypes: map[string]string{}}
	for _, f := range []struct {
		name string
		line func(string) error
	}{{"prototypes.tsv", a.prototype}, {"versions.tsv", a.version}, {"cuda.def", a.function}} {
		if err := eachLine(dir+"/"+f.name, f.line); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func eachLine(path string, line func(string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for n := 1; s.Scan(); n++ {
		if s.Text() == "" || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		if err := line(s.Text()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return s.Err()
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

func (a *api) function(line string) error {
	line, _, _ = strings.Cut(line, "#")
	f := strings.Fields(line)
	if len(f) > 0 && f[0] == "set" {
		return a.set(f[1:])
	}
	if len(f) < 3 {
		return fmt.Errorf("want number, class and name: %q", line)
	}
	fn := function{symbol: f[2]}
	if f[0] != "-" {
		n, err := strconv.Atoi(f[0])
		if err != nil {
			return err
		}
		fn.number = n
	}
	flags := strings.Split(f[1], ",")
	fn.class = flags[0]
	for _, flag := range flags[1:] {
		switch flag {
		case "custom":
			fn.custom = true
		case "noctx":
			fn.noctx = true
		case "op":
			fn.op = true
		case "final":
			fn.final = true
		case "exact":
			fn.exact = true
		default:
			return fmt.Errorf("unknown flag %q", flag)
		}
	}
	for _, w := range f[3:] {
		name, code, ok := strings.Cut(w, ":")
		if !ok {
			return fmt.Errorf("parameter %q has no code", w)
		}
		code, kind, _ := strings.Cut(code, ".")
		if code == "u" && kind != "" && !a.hasSet(kind) {
			return fmt.Errorf("%s: there is no set %s", fn.symbol, kind)
		}
		p := param{name: name, code: code, kind: kind}
		switch code {
		case "ib":
			p.kind, p.test = "", kind
		case "si":
			p.kind, p.test, _ = strings.Cut(kind, ".")
		}
		fn.params = append(fn.params, p)
	}
	if !fn.op && a.prototypes[fn.symbol] == "" {
		return fmt.Errorf("%s has no prototype", fn.symbol)
	}
	a.functions = append(a.functions, fn)
	return nil
}

// commandOutputs is what is made from commands.def.
func commandOutputs(a *api, w *wire) ([]output, error) {
	const path = "gpubackend/api/commands.def"
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cuda, err := structures.Structures(".")
	if err != nil {
		return nil, err
	}
	c, err := parseCommands(path, f, a, w, cuda)
	if err != nil {
		return nil, err
	}
	return []output{
		{"gpubackend/command/zz_generated_commands.go", commandsGo(c)},
		{"gpubackend/command/zz_generated_commands_test.go", roundTripsGo(c)},
		{libcuda + "transport/zz_generated_layouts.h", layoutsC(a, c)},
		{libcuda + "context/zz_generated_commands.h", commandsC(c)},
		{"docs/commands.md", commandsDoc(c)},
	}, nil
}

// apiOutputs parses the description of the driver API and returns what is made from it.
func apiOutputs(w *wire) ([]output, error) {
	a, err := parseAPI("gpubackend/api")
	if err != nil {
		return nil, err
	}
	layouts, err := commandOutputs(a, w)
	if err != nil {
		return nil, err
	}
	goFiles := []output{
		{"gpubackend/zz_generated_driver.go", driverGo(a)},
		{"gpubackend/worker/zz_generated_dispatch.go", dispatchGo(a)},
		{"gpubackend/cuda/driver/zz_generated_calls.go", callsGo(a)},
		{"gpubackend/allowed/zz_generated_sets.go", setsGo(a)},
		{"docs/coverage.md", coverageDoc(a)},
	}
	attributes, err := attributeOutputs()
	if err != nil {
		return nil, err
	}
	return slices.Concat(goFiles, layouts, attributes, cOutputs(a)), nil
}
