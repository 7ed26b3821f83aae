// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Parse reads the description.
func Parse(structs, values, results io.Reader) (*Description, error) {
	d := &Description{handles: map[string]bool{}, byName: map[string]*structure{}}
	if err := eachLine(structs, d.structLine); err != nil {
		return nil, fmt.Errorf("structures: %w", err)
	}
	for _, s := range d.structs {
		if err := s.check(); err != nil {
			return nil, err
		}
		for _, h := range s.halves {
			if err := s.checkHalves(h); err != nil {
				return nil, err
			}
		}
	}
	if err := eachLine(values, d.valueLine); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	if err := eachLine(results, d.resultLine); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return d, nil
}

// eachLine calls line for each line that isn't empty, without comments, and says whether it is
// indented.
func eachLine(r io.Reader, line func(text string, indented bool) error) error {
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		text, _, _ := strings.Cut(s.Text(), "#")
		text = strings.TrimRight(text, " ")
		if text == "" {
			continue
		}
		trimmed := strings.TrimLeft(text, " ")
		if err := line(trimmed, trimmed != text); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return s.Err()
}

// options cuts "as NAME" and "since V" off the words behind the first n.
func options(words []string, n int) (as string, since int, err error) {
	if len(words) < n {
		return "", 0, fmt.Errorf("want at least %d words: %q", n, words)
	}
	for rest := words[n:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return "", 0, fmt.Errorf("%q without a word behind it", rest[0])
		}
		switch rest[0] {
		case "as":
			as = rest[1]
		case "since":
			if since, err = strconv.Atoi(rest[1]); err != nil {
				return "", 0, err
			}
		default:
			return "", 0, fmt.Errorf("%q is neither as nor since", rest[0])
		}
	}
	return as, since, nil
}

func (d *Description) structLine(text string, indented bool) error {
	w := strings.Fields(text)
	switch {
	case indented && len(d.structs) == 0:
		return fmt.Errorf("a field outside a structure: %q", text)
	case indented && w[0] == "halves" && len(w) == 4:
		s := d.structs[len(d.structs)-1]
		s.halves = append(s.halves, halves{w[1], w[2], w[3]})
		return nil
	case indented:
		return d.fieldLine(d.structs[len(d.structs)-1], w)
	case w[0] == "handle":
		for _, name := range w[1:] {
			d.handles[name] = true
		}
		d.order = append(d.order, w[1:]...)
		return nil
	case w[0] == "struct":
		return d.newStruct(w)
	}
	return fmt.Errorf("neither handle nor struct: %q", text)
}

// cutHost cuts the word "host" off the end.
func cutHost(w []string) ([]string, bool) {
	if last := len(w) - 1; w[last] == "host" {
		return w[:last], true
	}
	return w, false
}

func (d *Description) newStruct(w []string) error {
	w, host := cutHost(w)
	as, since, err := options(w, 3)
	if err != nil {
		return err
	}
	s := &structure{name: w[1], goName: as, since: since, host: host}
	if s.size, err = strconv.Atoi(w[2]); err != nil {
		return err
	}
	if s.goName == "" {
		s.goName = structName(s.name)
	}
	if d.byName[s.name] != nil {
		return fmt.Errorf("%s is described twice", s.name)
	}
	d.structs = append(d.structs, s)
	d.byName[s.name] = s
	return nil
}

func (d *Description) fieldLine(s *structure, w []string) error {
	as, since, err := options(w, 3)
	if err != nil {
		return err
	}
	f := &field{path: w[2], goName: as, since: since}
	if f.offset, err = strconv.Atoi(w[0]); err != nil {
		return err
	}
	name, count, array := strings.Cut(w[1], "[")
	if array {
		if f.count, err = strconv.Atoi(strings.TrimSuffix(count, "]")); err != nil || f.count < 1 {
			return fmt.Errorf("%q isn't an array", w[1])
		}
	}
	if f.typ, err = d.fieldType(name); err != nil {
		return err
	}
	if f.goName == "" {
		f.goName = fieldName(f.path)
	}
	s.fields = append(s.fields, f)
	return nil
}

// scalars are the types that aren't structures, handles or pointers.
var scalars = map[string]fieldType{
	"u8":   {size: 1, goTyp: "uint8", c: "uint8_t"},
	"u16":  {size: 2, goTyp: "uint16", c: "uint16_t"},
	"u32":  {size: 4, goTyp: "uint32", c: "uint32_t"},
	"u64":  {size: 8, goTyp: "uint64", c: "uint64_t"},
	"i32":  {size: 4, goTyp: "int32", c: "int"},
	"f32":  {size: 4, goTyp: "float32", c: "float"},
	"enum": {size: 4, goTyp: "uint32", c: "int"},
	"size": {size: 8, goTyp: "uint64", c: "size_t"},
	"addr": {size: 8, goTyp: "uint64", c: "CUdeviceptr"},
	"fn":   {size: 8, goTyp: "uint64", c: "CUhostFn"},
}

func (d *Description) fieldType(name string) (fieldType, error) {
	if t, ok := scalars[name]; ok {
		t.align = t.size
		return t, nil
	}
	if s := d.byName[name]; s != nil {
		return fieldType{size: s.size, align: s.align(), c: s.name, inner: s}, nil
	}
	c := name
	if strings.HasSuffix(name, "*") {
		to := strings.TrimRight(name, "*")
		c = strings.Replace(to, "const:", "const ", 1) + " " + name[len(to):]
		to = strings.TrimPrefix(to, "const:")
		if to != "void" && !d.handles[to] && d.byName[to] == nil {
			return fieldType{}, fmt.Errorf("%q points to nothing known", name)
		}
	} else if !d.handles[name] {
		return fieldType{}, fmt.Errorf("type %q isn't known", name)
	}
	return fieldType{size: 8, align: 8, goTyp: "uint64", c: c}, nil
}

func (d *Description) valueLine(text string, indented bool) error {
	w := strings.Fields(text)
	if !indented {
		w, host := cutHost(w)
		switch {
		case len(w) == 1 && w[0] == "limits":
			d.groups = append(d.groups, &group{})
		case len(w) == 3 && w[0] == "values":
			d.groups = append(d.groups, &group{prefix: w[1], goPrefix: w[2], host: host})
		default:
			return fmt.Errorf("neither limits nor values: %q", text)
		}
		return nil
	}
	if len(d.groups) == 0 {
		return fmt.Errorf("a value outside a group: %q", text)
	}
	g := d.groups[len(d.groups)-1]
	as, since, err := options(w, 2)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseInt(w[0], 0, 33); err != nil {
		return err
	}
	if as == "" {
		as = w[1]
	}
	g.values = append(g.values, value{w[0], w[1], g.goPrefix + constantName(as), since})
	return nil
}

func (d *Description) resultLine(text string, _ bool) error {
	f := strings.Split(text, "\t")
	if len(f) != 3 && len(f) != 4 {
		return fmt.Errorf("want number, name, text and perhaps a version: %q", text)
	}
	r := result{name: f[1], text: f[2]}
	var err error
	if r.number, err = strconv.Atoi(f[0]); err == nil && len(f) == 4 {
		r.since, err = strconv.Atoi(f[3])
	}
	d.results = append(d.results, r)
	return err
}
