// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// set is a line of cuda.def that says what a scalar may be: any combination of bits, or one of the
// numbers whose bits are set.
type set struct {
	name string
	kind string // bits, of
	mask uint64
}

// set reads "NAME bits MASK" or "NAME of A,B-C".
func (a *api) set(f []string) error {
	if len(f) != 3 || a.hasSet(f[0]) {
		return fmt.Errorf("want a new name, bits or of, and numbers: %q", f)
	}
	s := set{name: f[0], kind: f[1]}
	var err error
	switch s.kind {
	case "bits":
		s.mask, err = strconv.ParseUint(f[2], 0, 64)
	case "of":
		s.mask, err = oneOf(f[2])
	default:
		err = fmt.Errorf("%q is neither bits nor of", s.kind)
	}
	a.sets = append(a.sets, s)
	return err
}

func (a *api) hasSet(name string) bool {
	for _, s := range a.sets {
		if s.name == name {
			return true
		}
	}
	return false
}

// oneOf returns a mask of the numbers of a list, each below 64.
func oneOf(list string) (mask uint64, err error) {
	for _, part := range strings.Split(list, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		low, err := strconv.ParseUint(from, 10, 6)
		if err != nil {
			return 0, err
		}
		high, err := strconv.ParseUint(to, 10, 6)
		if err != nil {
			return 0, err
		}
		for n := low; n <= high; n++ {
			mask |= 1 << n
		}
	}
	return mask, nil
}

func setsGo(a *api) []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "// SPDX-License-Identifier: Apache-2.0\n\n// %s\n\npackage allowed\n\n",
		generated)
	b.WriteString("// The sets of gpubackend/api/cuda.def.\nvar (\n")
	for _, s := range a.sets {
		fmt.Fprintf(b, "%s = %s\n", camel(s.name), s.goValue())
	}
	b.WriteString(")\n\n// All are the sets by their names in gpubackend/api/cuda.def.\n" +
		"var All = map[string]Set{\n")
	for _, s := range a.sets {
		fmt.Fprintf(b, "%q: %s,\n", s.name, camel(s.name))
	}
	b.WriteString("}\n\n// Parameters are the words of commands that must be in a set: " +
		"by the function's symbol, by the word's place.\n")
	b.WriteString("var Parameters = map[string]map[int]Set{\n")
	for _, f := range a.remote() {
		var words []string
		for _, s := range f.setWords() {
			words = append(words, fmt.Sprintf("%d: %s", s.word, s.set))
		}
		if len(words) > 0 {
			fmt.Fprintf(b, "%q: {%s},\n", f.symbol, strings.Join(words, ", "))
		}
	}
	b.WriteString("}\n")
	return b.Bytes()
}

func (s set) goValue() string {
	if s.kind == "bits" {
		return fmt.Sprintf("Set{bits: %#x}", s.mask)
	}
	return fmt.Sprintf("Set{numbers: %#x}", s.mask)
}

// setWord is a word of a command that must be in a set.
type setWord struct {
	word int
	set  string // its name in Go
}

func (f function) setWords() (list []setWord) {
	word := 0
	for _, p := range f.params {
		switch {
		case p.code == "u":
			if p.kind != "" {
				list = append(list, setWord{word, camel(p.kind)})
			}
			word++
		case p.code == "h", p.code == "d":
			word++
		case p.buffer():
			word += 2
		}
	}
	return list
}

// setsC writes, for each set, a function that says whether a number is in it.
func setsC(a *api) string {
	var b strings.Builder
	for _, s := range a.sets {
		test := fmt.Sprintf("!(n & ~(uint64_t)%#x)", s.mask)
		if s.kind == "of" {
			test = fmt.Sprintf("n < 64 && (UINT64_C(%#x) >> n & 1)", s.mask)
		}
		fmt.Fprintf(&b, "\nstatic inline bool is_%s(uint64_t n)\n{\n\treturn %s;\n}\n", s.name,
			test)
	}
	return b.String()
}
