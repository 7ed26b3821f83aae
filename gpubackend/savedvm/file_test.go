// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/record"
)

// growing is a file to which state after state of one program is written.
type growing struct {
	t      *testing.T
	file   []byte
	states [][]byte // the memory of each
}

// add writes a state. Its memory is made of runs: bytes of the state before, and bytes of its own.
// Without runs all of it is its own.
func (g *growing) add(runs []SameRun, own []byte) {
	g.t.Helper()
	list := parts()
	list[4].content, list[5].content = string(EncodeRuns(runs)), string(own)
	s := source("a", list)
	s.Bytes = 1 << 40
	memory := own
	if len(g.states) > 0 {
		f := g.open()
		s.Base = &Base{Number: 0, Sum: f.Last().Sum}
		s.BaseBytes, s.BaseParts = f.Last().Memory(0)
	}
	if len(runs) > 0 {
		memory = nil
		for _, r := range runs {
			memory = append(memory, g.states[len(g.states)-1][r.From:r.From+r.Same]...)
			memory = append(memory, own[:r.Own]...)
			own = own[r.Own:]
		}
	}
	var b bytes.Buffer
	if _, err := Write(&b, VM{}, []Source{s}); err != nil {
		g.t.Fatal(err)
	}
	g.file, g.states = append(g.file, b.Bytes()...), append(g.states, memory)
}

func (g *growing) open() *File {
	g.t.Helper()
	f, err := OpenFile(bytes.NewReader(g.file))
	if err != nil || f.Behind != nil || len(f.States) != len(g.states) {
		g.t.Fatalf("%+v, %v", f, err)
	}
	return f
}

// read is the program's memory, as its worker gets it.
func read(t *testing.T, s *State) ([]byte, error) {
	t.Helper()
	var got collected
	err := s.Each(func(int, Program) (io.WriteCloser, func() error) {
		return &got, func() error { return nil }
	})
	if err != nil {
		return nil, err
	}
	r, err := record.NewReader(&got)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range sections[:4] {
		if _, err := ReadAll(r, x.name, x.most); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Next(r, SameName, 0); err != nil {
		t.Fatal(err)
	}
	return ReadAll(r, MemoryName, 1<<30)
}

func random(bytes int) []byte {
	b := make([]byte, bytes)
	r := rand.NewChaCha8([32]byte{byte(bytes)})
	_, _ = r.Read(b)
	return b
}

// grown is a file with several states. All but the first and the last have memory of the state
// before, in the same place or elsewhere.
func grown(t *testing.T) *growing {
	g := &growing{t: t}
	g.add(nil, random(5<<20))
	g.add([]SameRun{{Own: 10}, {Same: 1 << 20}, {Same: 3<<20 - 5, From: 1<<20 + 5, Own: 7},
		{Same: 100, From: 4 << 20}}, random(17))
	g.add([]SameRun{{Same: 3 << 20, From: 3, Own: 2 << 20}}, random(2<<20))
	g.add([]SameRun{{Same: 5 << 20}}, nil)
	g.add(nil, random(100)) // nothing of the state before
	return g
}

// TestStates: each state of a file has the memory that its program had then.
func TestStates(t *testing.T) {
	g := grown(t)
	f := g.open()
	for i, want := range g.states {
		s := f.State(f.States[i].Sum)
		got, err := read(t, s)
		if bytes, _ := s.Memory(0); err != nil || bytes != uint64(len(want)) {
			t.Fatalf("state %d: %d bytes, %v", i, bytes, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("state %d: %d bytes are others than %d", i, len(got), len(want))
		}
	}
	if f.State(f.Last().Sum+1) != nil {
		t.Error("a state that isn't there")
	}
}

// TestHalfAState: a record that is cut short or damaged anywhere is ignored, as is all behind it,
// and the states before it are as they were.
func TestHalfAState(t *testing.T) {
	g := grown(t)
	whole := g.open()
	whole.States = whole.States[:2]
	from, to := int(whole.States[1].End), int(g.open().States[2].End)
	for _, end := range []int{from + 1, from + 100, from + 1000, (from + to) / 2, to - 1} {
		cut := g.file[:end]
		damaged := bytes.Clone(g.file)
		damaged[end] ^= 4
		for name, file := range map[string][]byte{"cut short": cut, "damaged": damaged} {
			f, err := OpenFile(bytes.NewReader(file))
			if err != nil || len(f.States) != 2 || !errors.Is(f.Behind, record.ErrRecord) {
				t.Fatalf("%s at %d: %+v, %v", name, end-from, f, err)
			}
			if got, err := read(t, f.Last()); err != nil || !bytes.Equal(got, g.states[1]) {
				t.Errorf("%s at %d: %d bytes, %v", name, end-from, len(got), err)
			}
		}
	}
}

// TestDamagedSince: memory that was damaged after the file was opened is refused when it is read.
func TestDamagedSince(t *testing.T) {
	g := grown(t)
	f := g.open()
	g.file[2<<20] ^= 1 // in the first state's memory; the fourth has it, too
	if _, err := read(t, f.States[3]); !errors.Is(err, record.ErrRecord) {
		t.Errorf("%v", err)
	}
}

// TestStrangeRuns: a state whose runs or base can't be right is refused, and the good state before
// it stays.
func TestStrangeRuns(t *testing.T) {
	const base = 5 << 20
	var many []SameRun
	for range MaxRuns + 1 {
		many = append(many, SameRun{Own: 1})
	}
	for name, x := range map[string]struct {
		runs []SameRun
		own  int
		base string
	}{
		"none of it":      {runs: []SameRun{{}}},
		"behind its end":  {runs: []SameRun{{Same: 1, From: base}}},
		"over its end":    {runs: []SameRun{{Same: 2, From: base - 1}}},
		"over all":        {runs: []SameRun{{Same: 1 << 63, From: 1}}},
		"twice":           {runs: []SameRun{{Same: 10}, {Same: 10, From: 5}}},
		"backwards":       {runs: []SameRun{{Same: 10, From: 20}, {Same: 10}}},
		"more of its own": {runs: []SameRun{{Own: 7}}, own: 6},
		"less of its own": {runs: []SameRun{{Own: 5}}, own: 6},
		"too much":        {runs: []SameRun{{Own: 1 << 62}, {Own: 1 << 62}, {Own: 1 << 63}}},
		"too many":        {runs: many, own: len(many)},
		"another program": {runs: []SameRun{{Same: 1}}, base: `"Number":1,"Sum":SUM`},
		"no program":      {runs: []SameRun{{Same: 1}}, base: `"Number":-1,"Sum":SUM`},
		"another record":  {runs: []SameRun{{Same: 1}}, base: `"Number":0,"Sum":1`},
		"no base":         {runs: []SameRun{{Same: 1}}, base: "-"},
		"no base needed":  {runs: []SameRun{{Own: 1}}, own: 1, base: "-"},
	} {
		g := &growing{t: t}
		g.add(nil, random(base))
		sum := g.open().Last().Sum
		if x.base == "" {
			x.base = `"Number":0,"Sum":SUM`
		}
		programs := `[{"Base":{` + strings.ReplaceAll(x.base, "SUM", fmt.Sprint(sum)) + `}}]`
		if x.base == "-" {
			programs = `[{}]`
		}
		list := append([]part{{ProgramsName, programs, 0}}, parts()...)
		list[5].content, list[6].content = string(EncodeRuns(x.runs)), string(random(x.own))
		f, err := OpenFile(bytes.NewReader(append(g.file, write(t, list)...)))
		if err != nil || len(f.States) != 1 || f.Behind == nil {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// TestManyStates: a file has at most MaxStates states.
func TestManyStates(t *testing.T) {
	one := append([]part{{ProgramsName, `[{}]`, 0}}, parts()...)
	one[6].content = "little"
	file := bytes.Repeat(write(t, one), MaxStates+1)
	f, err := OpenFile(bytes.NewReader(file))
	if err != nil || len(f.States) != MaxStates || !errors.Is(f.Behind, ErrSaved) {
		t.Errorf("%d states, %v, %v", len(f.States), f.Behind, err)
	}
}
