// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// FuzzOpenFile: a file is refused with the reason, or each state that it has is one that a simple
// reader finds in it, within all bounds, and its programs get that state's memory.
//
// An input is the file itself, or what is changed in one that the package has written: see changed.
func FuzzOpenFile(f *testing.F) {
	good := suspendedThrice(f)
	f.Add(encode(f, good))
	f.Add(encode(f, [][]part{slices.Insert(slices.Clone(good[0]), 1,
		part{name: DescriptorsName, content: "open"})}))
	early, x := area(0, 'p', 'q')
	f.Add(append(early, written(f, earlySource([]SameRun{
		{Same: sectorsum.Bytes, From: InArea, Own: 1},
		{Same: 7, From: InArea | (sectorsum.Bytes + 2)}}, "o", x...))...))
	for _, b := range []string{"", "r\x00\x00\x03f\x00\x00\x00", "r\x00\x06\x08", "a\x00\x00\x00",
		"b\x00\x00\xff", "b\x00\x00\x01", "b\x01\x00\xfe", "c\x07\x00\x01", "f\x01\x00\x07",
		"x\x02\x00\x01", "t\x04\x00\x04"} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file := b
		if !bytes.HasPrefix(b, []byte("pcrecord")) && !bytes.HasPrefix(b, areaMagic[:]) {
			file = changed(t, good, b)
		}
		all, err := OpenFile(bytes.NewReader(file))
		if err != nil {
			hasReason(t, err)
			return
		}
		if err := inBounds(all, len(file)); err != nil {
			t.Fatal(err)
		}
		reread(t, all, file)
	})
}

// hasReason fails the test if an error isn't about the file.
func hasReason(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrSaved) && !errors.Is(err, record.ErrRecord) {
		t.Fatalf("refused without a reason: %v", err)
	}
}

// inBounds says which bound a file is beyond.
func inBounds(f *File, length int) error {
	if len(f.States) == 0 || len(f.States) > MaxStates || f.Runs() > MaxFileRuns {
		return errors.New("too many states or runs, or no state")
	}
	end := int64(0)
	for _, s := range f.States {
		if s.End <= end || s.End > int64(length) || len(s.memory) != len(s.Programs) ||
			len(s.Programs) > record.MaxPrograms {
			return errors.New("a state where none can be")
		}
		end = s.End
		for i := range s.Programs {
			if _, parts := s.Memory(i); parts > MaxParts {
				return errors.New("memory in too many parts")
			}
		}
	}
	if (f.Behind == nil) != (end == int64(length)) {
		return errors.New("something is behind the last state, or nothing is, and it says else")
	}
	return nil
}

// reread compares all states of a file with what a simple reader finds.
func reread(t *testing.T, f *File, file []byte) {
	t.Helper()
	if f.Behind != nil {
		hasReason(t, f.Behind)
	}
	var before [][]byte
	at := int64(0)
	for _, s := range f.States {
		want := simpleState(t, s, file[at:s.End], before)
		var got []*collected
		err := s.Each(func(int, Program) (io.WriteCloser, func() error) {
			got = append(got, &collected{})
			return got[len(got)-1], nil
		})
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d programs of %d, %v", len(got), len(want), err)
		}
		before, at = nil, s.End
		for i := range want {
			sameSections(t, got[i], want[i])
			memory := want[i][MemoryName]
			if n, _ := s.Memory(i); n != uint64(len(memory)) {
				t.Fatalf("%d bytes of memory, not %d", n, len(memory))
			}
			before = append(before, memory)
		}
	}
}

// simpleState reads a state's sections by name. It makes its programs' memory from these and from
// before, the memory of the state before, and from the area that the state may begin with.
func simpleState(t *testing.T, s *State, b []byte, before [][]byte) (list []map[string][]byte) {
	t.Helper()
	var area, sectors []byte
	if bytes.HasPrefix(b, areaMagic[:]) {
		n := int(binary.LittleEndian.Uint32(b[12:])) * sectorsum.Bytes
		area, b = b[areaHeadBytes:][:n], b[areaHeadBytes+n:]
	}
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for {
		x, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if x.Program == 0 {
			sectors = content // those of the last one
			continue
		}
		if int(x.Program) > len(list) {
			list = append(list, map[string][]byte{})
		}
		list[x.Program-1][x.Name] = content
	}
	for i, p := range s.Programs {
		var base, early []byte
		if p.Base != nil {
			base = before[p.Base.Number]
		}
		for range p.Sectors {
			at := int(binary.LittleEndian.Uint32(sectors)) * sectorsum.Bytes
			early, sectors = append(early, area[at:][:sectorsum.Bytes]...), sectors[sectorBytes:]
		}
		list[i][MemoryName] = splice(t, list[i][SameName], base, early, list[i][MemoryName])
		list[i][SameName] = nil
	}
	return list
}

// splice is memory that runs put together from what is before it, and own.
func splice(t *testing.T, runs, base, early, own []byte) (all []byte) {
	t.Helper()
	if len(runs) == 0 {
		return own
	}
	takenBase, takenEarly := make([]bool, len(base)), make([]bool, len(early))
	for ; len(runs) > 0; runs = runs[runBytes:] {
		same, from := binary.LittleEndian.Uint64(runs), binary.LittleEndian.Uint64(runs[8:])
		taken, base := takenBase, base
		if from >= 1<<63 {
			taken, base, from = takenEarly, early, from-1<<63
		}
		for i := range same {
			if taken[from+i] {
				t.Fatalf("byte %d is taken twice", from+i)
			}
			taken[from+i] = true
			all = append(all, base[from+i])
		}
		n := binary.LittleEndian.Uint64(runs[16:])
		all, own = append(all, own[:n]...), own[n:]
	}
	if len(own) > 0 {
		t.Fatalf("%d bytes are in no run", len(own))
	}
	return all
}

// sameSections fails the test if a worker gets other sections than these.
func sameSections(t *testing.T, got *collected, want map[string][]byte) {
	t.Helper()
	r, err := record.NewReader(got)
	if err != nil || !got.closed {
		t.Fatalf("no record, %v", err)
	}
	for _, x := range sections {
		b, err := ReadAll(r, x.name, x.most)
		if err != nil || !bytes.Equal(b, want[x.name]) {
			t.Fatalf("section %q: %d bytes, not %d, %v", x.name, len(b), len(want[x.name]), err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("it doesn't end: %v", err)
	}
}
