// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/record"
)

// Changes are bounded, so that an input is cheap.
const (
	mostChanges  = 32
	mostSections = 64
	mostContent  = 1 << 10
)

// suspendedThrice is the sections of a file to which two programs were saved three times, each
// time with memory that hadn't changed.
func suspendedThrice(t testing.TB) (states [][]part) {
	t.Helper()
	var before *State
	var file []byte
	for i, runs := range [][]SameRun{nil, {{Same: 40, From: 4, Own: 8}}, {{Own: 3}, {Same: 30}}} {
		var list []Source
		for number, name := range []string{"a", "b"} {
			x := parts()
			x[4].content = string(EncodeRuns(runs))
			x[5].content = string(random([]int{64, 8, 3}[i]))
			s := source(name, x)
			if before != nil {
				s.Base = &Base{Number: number, Sum: before.Sum}
				s.BaseBytes, s.BaseParts = before.Memory(number)
			}
			list = append(list, s)
		}
		var b bytes.Buffer
		if _, err := Write(&b, VM{}, list); err != nil {
			t.Fatal(err)
		}
		states = append(states, decode(t, b.Bytes()))
		file = append(file, b.Bytes()...)
		f, err := OpenFile(bytes.NewReader(file))
		if err != nil || f.Behind != nil {
			t.Fatal(f, err)
		}
		before = f.Last()
	}
	return states
}

// decode takes a record apart.
func decode(t testing.TB, b []byte) (list []part) {
	t.Helper()
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for {
		s, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, part{s.Name, string(content), s.Program})
	}
}

// encode writes records whose checksums are right. Where a program's base has the sum of the
// state that was before it, it has that of the state that is now.
func encode(t testing.TB, states [][]part) (file []byte) {
	t.Helper()
	sum := uint32(0)
	for _, list := range states {
		var b bytes.Buffer
		w, err := record.NewWriter(&b, record.Header{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if x.name == ProgramsName {
				x.content = based(x.content, sum)
			}
			if w.Begin(record.Section{Program: x.program, Name: x.name,
				Bytes: uint64(len(x.content))}) != nil {
				continue // no record has this one here
			}
			if _, err := io.WriteString(w, x.content); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		sum = w.Sum()
		file = append(file, b.Bytes()...)
	}
	return file
}

// otherSum is the sum of a base that isn't the record before.
const otherSum = 1

// based is a list of programs whose bases have that sum, but for those that are to have another.
func based(text string, sum uint32) string {
	var list []Program
	if json.Unmarshal([]byte(text), &list) != nil {
		return text
	}
	for i := range list {
		if b := list[i].Base; b != nil && b.Sum != otherSum {
			b.Sum = sum
		}
	}
	b, _ := json.Marshal(list) // it is what was read
	return string(b)
}

// changed is the file with these states after changes, of four bytes each: what is changed, in
// which section or program, counted over the whole file, and two more.
func changed(t *testing.T, good [][]part, script []byte) []byte {
	t.Helper()
	states := make([][]part, len(good))
	for i := range good {
		states[i] = slices.Clone(good[i])
	}
	var raw [][]byte
	for n := 0; len(script) >= 4 && n < mostChanges; n++ {
		c := script[:4]
		script = script[4:]
		switch c[0] {
		case 'x', 'c': // after the rest
			raw = append(raw, c)
		case 'd': // a state once more
			states = append(states, slices.Clone(states[int(c[1])%len(states)]))
			states = states[:min(len(states), 8)]
		default:
			change(states, c)
		}
	}
	file := encode(t, states)
	for _, c := range raw {
		at := int(binary.LittleEndian.Uint16(c[1:])) % max(1, len(file))
		if c[0] == 'c' {
			file = file[:at]
		} else if len(file) > 0 {
			file[at] ^= c[3]
		}
	}
	return file
}

// change changes one section.
func change(states [][]part, c []byte) {
	list, i := find(states, int(c[1]), func(x part) bool {
		switch c[0] {
		case 'r', 'a':
			return x.name == SameName
		case 'b', 'm':
			return x.name == ProgramsName
		case 'f':
			return x.name == MemoryName
		}
		return true
	})
	if list == nil {
		return
	}
	x := &(*list)[i]
	switch c[0] {
	case 's': // a byte
		if b := []byte(x.content); len(b) > 0 {
			b[int(c[2])%len(b)] = c[3]
			x.content = string(b)
		}
	case 't': // cut short
		x.content = x.content[:min(len(x.content), int(c[2]))]
	case 'l': // longer
		x.content += string(bytes.Repeat(c[3:], int(c[2])))
	case 'o': // left out
		*list = slices.Delete(*list, i, i+1)
	case 'w': // twice
		*list = slices.Insert(*list, i, *x)
	case 'p': // of another program
		x.program = uint32(c[3])
	case 'n': // another name
		x.name = sections[int(c[3])%len(sections)].name
	case 'r': // a number of a run
		x.content = renumbered(x.content, int(c[2]), c[3])
	case 'a': // another run
		x.content += string(EncodeRuns([]SameRun{
			{Same: uint64(c[2] & 15), From: uint64(c[3]), Own: uint64(c[2] >> 4)}}))
	case 'b': // where a program's memory is
		x.content = rebased(x.content, int(c[2]), c[3])
	case 'm': // a program more
		x.content = rebased(x.content, -1, c[3])
	case 'f': // as long as the runs before it say
		if i > 0 {
			x.content = fitting(x.content, (*list)[i-1].content)
		}
	}
	for i := range *list {
		(*list)[i].content = (*list)[i].content[:min(len((*list)[i].content), mostContent)]
	}
	*list = (*list)[:min(len(*list), mostSections)]
}

// find finds a section by its number among those that are meant.
func find(states [][]part, number int, meant func(x part) bool) (list *[]part, index int) {
	count := 0
	for range 2 { // the number may be too large
		for s := range states {
			for i, x := range states[s] {
				if !meant(x) {
					continue
				}
				if count == number {
					return &states[s], i
				}
				count++
			}
		}
		if count == 0 {
			return nil, 0
		}
		number, count = number%count, 0
	}
	return nil, 0
}

// renumbered changes one of the numbers of runs: to a small one, or one about a power of two.
func renumbered(runs string, which int, to byte) string {
	b := []byte(runs)
	if len(b) < 8 {
		return runs
	}
	n := uint64(to)
	if to >= 192 {
		n = uint64(1)<<(to&63) + uint64(which>>6) - 1
	}
	binary.LittleEndian.PutUint64(b[which%(len(b)/8)*8:], n)
	return string(b)
}

// rebased changes the base of a program; -1: adds a program.
func rebased(text string, which int, to byte) string {
	var list []Program
	if json.Unmarshal([]byte(text), &list) != nil || which >= 0 && len(list) == 0 {
		return text
	}
	if which < 0 {
		which = len(list)
		list = append(list, Program{Channel: which})
	}
	switch p := &list[which%len(list)]; to {
	case 255:
		p.Base = nil
	case 254:
		p.Base = &Base{Sum: otherSum}
	default:
		p.Base = &Base{Number: int(int8(to))}
	}
	b, _ := json.Marshal(list)
	return string(b)
}

// fitting is memory that is as long as runs say.
func fitting(memory, runs string) string {
	own := uint64(0)
	for b := []byte(runs); len(b) >= runBytes; b = b[runBytes:] {
		own += min(mostContent, binary.LittleEndian.Uint64(b[16:]))
	}
	for uint64(len(memory)) < own {
		memory += "m"
	}
	return memory[:own]
}
