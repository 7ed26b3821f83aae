// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/record"
)

// part is a section that a worker writes.
type part struct {
	name    string
	content string
	program uint32
}

// parts are the sections that a good worker writes.
func parts() []part {
	return []part{{StateName, "{}", 1}, {ObjectsName, "objects", 1}, {JournalName, "", 1},
		{LayoutName, "layout", 1}, {SameName, "", 1},
		{MemoryName, strings.Repeat("memory", 1<<19), 1}}
}

// source is a worker that writes these sections.
func source(name string, list []part) Source {
	return Source{Program: Program{Channel: 3, PID: 7, Name: name, Bytes: 4 << 20},
		Save: func(end *lanes.Far) error {
			to := end.Open()
			defer to.Close()
			w, err := record.NewWriter(to, record.Header{})
			if err != nil {
				return err
			}
			for _, x := range list {
				err := w.Begin(record.Section{Program: x.program, Name: x.name,
					Bytes: uint64(len(x.content))})
				if err != nil {
					return err
				}
				if _, err := io.WriteString(w, x.content); err != nil {
					return err
				}
			}
			return w.End()
		}}
}

// collected is a worker that reads.
type collected struct {
	bytes.Buffer
	closed bool
}

func (c *collected) Close() error { c.closed = true; return nil }

// TestWriteAndRead: each worker reads what it wrote. For one that is gone nothing is read.
func TestWriteAndRead(t *testing.T) {
	var file bytes.Buffer
	others := parts()
	others[1].content = "other objects"
	written, err := Write(&file, VM{Header: record.Header{GPU: "soft"}},
		[]Source{source("a", parts()), source("b", parts()), source("c", others)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := OpenFile(bytes.NewReader(file.Bytes()))
	if err != nil || all.Last().Sum != written.Sum || len(all.Last().Programs) != 3 ||
		all.Last().Header.GPU != "soft" || all.Behind != nil || len(all.States) != 1 {
		t.Fatalf("%+v, %v, written %+v", all, err, written)
	}
	var read [3]collected
	var names []string
	give := func(n int, p Program) (io.WriteCloser, func() error) {
		names = append(names, p.Name)
		if p.Name == "b" {
			return nil, nil
		}
		return &read[n], func() error { return nil }
	}
	err = all.Last().Each(give)
	if err != nil || !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Fatalf("%v, %v", names, err)
	}
	for i, want := range [][]part{parts(), nil, others} {
		if want == nil {
			continue
		}
		r, err := record.NewReader(&read[i])
		if err != nil || !read[i].closed {
			t.Fatal(err)
		}
		for _, x := range want {
			b, err := ReadAll(r, x.name, 1<<30)
			if err != nil || string(b) != x.content {
				t.Fatalf("program %d, %s: %d bytes, %v", i, x.name, len(b), err)
			}
		}
	}
}

// TestStrangeWorkers: no record is made if a worker writes what it shouldn't.
func TestStrangeWorkers(t *testing.T) {
	no := errors.New("no")
	for name, change := range map[string]func(s *Source){
		"a section less":  func(s *Source) { *s = source("a", parts()[:4]) },
		"a section twice": func(s *Source) { *s = source("a", append(parts(), parts()[5])) },
		"another order": func(s *Source) {
			list := parts()
			list[0], list[1] = list[1], list[0]
			*s = source("a", list)
		},
		"too much memory": func(s *Source) { s.Bytes = 100 },
		"memory of another record": func(s *Source) {
			list := parts()
			list[4].content = string(EncodeRuns([]SameRun{{1, 0, 3 << 20}}))
			*s = source("a", list)
			s.Base = &Base{}
		},
		"too much memory of another record": func(s *Source) {
			list := parts()
			list[4].content = string(EncodeRuns([]SameRun{{2 << 20, 0, 3 << 20}}))
			*s = source("a", list)
			s.Base, s.BaseBytes = &Base{}, 4<<20
		},
		"runs without a record before": func(s *Source) {
			list := parts()
			list[4].content = string(EncodeRuns([]SameRun{{Own: 3 << 20}}))
			*s = source("a", list)
		},
		"half a run": func(s *Source) {
			list := parts()
			list[4].content = "half"
			*s = source("a", list)
			s.Base, s.BaseBytes = &Base{}, 4<<20
		},
		"nothing":  func(s *Source) { s.Save = func(*lanes.Far) error { return nil } },
		"an error": func(s *Source) { s.Save = func(*lanes.Far) error { return no } },
		"no record": func(s *Source) {
			s.Save = func(end *lanes.Far) error {
				to := end.Open()
				defer to.Close()
				_, err := to.Write(make([]byte, 1<<20))
				return err
			}
		},
	} {
		s := source("a", parts())
		change(&s)
		if _, err := Write(io.Discard, VM{}, []Source{s}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// write is a record with these sections.
func write(t *testing.T, list []part) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter(&b, record.Header{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		err := w.Begin(record.Section{Program: x.program, Name: x.name,
			Bytes: uint64(len(x.content))})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, x.content)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestStrangeFiles are refused. If the list of programs doesn't fit the sections of a stream, that
// may be seen only when these are read.
func TestStrangeFiles(t *testing.T) {
	programs := part{ProgramsName, `[{"Channel":1}]`, 0}
	all := append([]part{programs}, parts()...)
	if _, err := OpenFile(bytes.NewReader(write(t, all))); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]part{
		"nothing":              nil,
		"no list of programs":  parts(),
		"two lists":            append([]part{programs}, all...),
		"a section is missing": slices.Delete(slices.Clone(all), 3, 4),
		"the last is missing":  all[:6],
		"one is unknown":       append(slices.Clone(all), part{"more", "", 1}),
	} {
		if _, err := OpenFile(bytes.NewReader(write(t, list))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, text := range []string{`[]`, `[{},{}]`, `{`, `[{"Base":{"Number":0,"Sum":0}}]`} {
		all[0].content = text
		if _, err := OpenFile(bytes.NewReader(write(t, all))); err == nil {
			t.Errorf("%s: no error", text)
		}
		r, err := Open(bytes.NewReader(write(t, all))) // from a stream
		if err == nil {
			err = r.Each(func(int, Program) (io.WriteCloser, func() error) {
				return &collected{}, func() error { return nil }
			})
		}
		if err == nil {
			t.Errorf("%s in a stream: no error", text)
		}
	}
}
