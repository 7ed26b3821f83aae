// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

const sectorLength = sectorsum.Bytes

// area is an area with sectors, each of one byte, and what names them.
func area(start int64, content ...byte) (b []byte, list []Sector) {
	b = Area{start, uint32(len(content))}.Head()
	for i, x := range content {
		sector := bytes.Repeat([]byte{x}, sectorLength)
		b = append(b, sector...)
		list = append(list, Sector{uint32(i), SumOf(sector)})
	}
	return b, list
}

// written is a record of programs.
func written(t testing.TB, list ...Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, VM{}, list); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// earlySource is a program with these sectors before its record, and runs and memory of its own.
func earlySource(runs []SameRun, own string, sectors ...Sector) Source {
	list := parts()
	list[4].content, list[5].content = string(EncodeRuns(runs)), own
	s := source("a", list)
	s.Sectors = sectors
	return s
}

// TestArea: programs get memory from the area before their record, from the record before that, and
// from the record, in any mixture; also when more states follow.
func TestArea(t *testing.T) {
	const k = sectorLength
	file, x := area(0, 'p', 'q', 'r', 's')
	file = append(file, written(t,
		earlySource([]SameRun{{Same: k, From: InArea, Own: 2}, {Same: k, From: InArea | k}}, "ow",
			x[2], x[0]),
		earlySource([]SameRun{{Same: 10, From: InArea | 5}}, "", x[3]))...)
	f, err := OpenFile(bytes.NewReader(file))
	if err != nil || f.Behind != nil || len(f.States) != 1 || f.Last().End != int64(len(file)) {
		t.Fatalf("%+v, %v", f, err)
	}
	repeat := func(what string, n int) string { return strings.Repeat(what, n) }
	first := repeat("r", k) + "ow" + repeat("p", k)
	mustRead(t, f.Last(), first, repeat("s", 10))

	behind, y := area(f.Last().End, 'v')
	s := earlySource([]SameRun{{Same: 2, From: InArea}, {Same: 5, From: k}, {Same: k - 2,
		From: InArea | 2, Own: 1}, {Same: 3, From: k + 5}}, "n", y[0])
	s.Base, s.BaseBytes, s.BaseParts = &Base{Sum: f.Last().Sum}, 2*k+2, 5
	file = append(append(file, behind...), written(t, s)...)
	if f, err = OpenFile(bytes.NewReader(file)); err != nil || len(f.States) != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	mustRead(t, f.Last(), "vvowppp"+repeat("v", k-2)+"nppp")
	mustRead(t, f.States[0], first, repeat("s", 10))
}

// TestAreaThatNobodyNeeds: the program whose memory is in the area has ended, and another one is in
// the record.
func TestAreaThatNobodyNeeds(t *testing.T) {
	file, _ := area(0, 'p', 'q')
	file = append(file, written(t, earlySource(nil, "own"))...)
	f, err := OpenFile(bytes.NewReader(file))
	if err != nil || f.Behind != nil {
		t.Fatalf("%+v, %v", f, err)
	}
	mustRead(t, f.Last(), "own")
}

// mustRead reads the memory of all programs of a state.
func mustRead(t *testing.T, s *State, want ...string) {
	t.Helper()
	var list []*collected
	err := s.Each(func(int, Program) (io.WriteCloser, func() error) {
		list = append(list, &collected{})
		return list[len(list)-1], func() error { return nil }
	})
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d programs, %v", len(list), err)
	}
	for i, x := range list {
		for _, part := range decode(t, x.Bytes()) {
			if part.name == MemoryName && part.content != want[i] {
				t.Errorf("program %d has other memory, of %d bytes", i, len(part.content))
			}
			if part.name == SectorsName || part.name == SameName && part.content != "" {
				t.Errorf("program %d is told where memory was", i)
			}
		}
	}
}

// TestDamagedArea: a sector that is used is compared with its sum, when the file is opened and when
// it is read. One that isn't used may have anything.
func TestDamagedArea(t *testing.T) {
	const k = sectorLength
	file, x := area(0, 'p', 'q', 'r')
	at := func(n int) int { return areaHeadBytes + n*k + 1000 }
	file = append(file, written(t, earlySource([]SameRun{{Same: 1, From: InArea}, {Same: 1,
		From: InArea | (2*k + 7)}}, "",
		x...))...)
	f, err := OpenFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	file[at(1)] ^= 1
	if _, err := OpenFile(bytes.NewReader(file)); err != nil {
		t.Errorf("a sector that isn't used: %v", err)
	}
	mustRead(t, f.Last(), "pr")
	for _, n := range []int{0, 2} {
		file[at(n)] ^= 1
		if _, err := OpenFile(bytes.NewReader(file)); err == nil ||
			!strings.Contains(err.Error(), "damaged") {
			t.Errorf("sector %d: %v", n, err)
		}
		if _, err := read(t, f.Last()); err == nil {
			t.Errorf("sector %d is read", n)
		}
		file[at(n)] ^= 1
	}
}

// TestStrangeAreas: files are refused whose areas or sectors can't be right.
func TestStrangeAreas(t *testing.T) {
	const k = sectorLength
	head := func(magic string, format, sectors uint32) []byte {
		b := append([]byte(magic), make([]byte, areaHeadBytes-len(magic))...)
		binary.LittleEndian.PutUint32(b[8:], format)
		binary.LittleEndian.PutUint32(b[12:], sectors)
		return b
	}
	good, x := area(0, 'p', 'q')
	one := written(t, earlySource([]SameRun{{Same: k, From: InArea}}, "", x...))
	if _, err := OpenFile(bytes.NewReader(append(good, one...))); err != nil {
		t.Fatal(err)
	}
	odd := bytes.Clone(good)
	odd[areaHeadBytes-1] = 1
	list := func(programs, sectors string, rest []part) []byte {
		all := []part{{ProgramsName, programs, 0}}
		if sectors != "-" {
			all = append(all, part{SectorsName, sectors, 0})
		}
		return write(t, append(all, rest...))
	}
	same := parts()
	same[4].content, same[5].content = string(EncodeRuns([]SameRun{{Same: 1,
		From: InArea}})), ""
	sector := string(encodeSectors([]Source{{Sectors: x[:1]}}))
	for name, file := range map[string][]byte{
		"another format": append(head("pcsector", 2, 2), append(good[areaHeadBytes:],
			one...)...),
		"no sectors":     append(head("pcsector", 1, 0), one...),
		"too many":       append(head("pcsector", 1, MaxSectors+1), one...),
		"not all there":  good[:len(good)-1],
		"nothing behind": good,
		"a head cut off": good[:100],
		"not zero":       append(odd, one...),
		"no area":        one,
		"fewer sectors": append(head("pcsector", 1, 1), append(good[areaHeadBytes:][:k],
			one...)...),
		"a number too large": append(good, list(`[{"Sectors":1}]`, "\x02\x00\x00\x00sum.",
			same)...),
		"less than said": append(good, list(`[{"Sectors":2}]`, sector, same)...),
		"more than said": append(good, list(`[{"Sectors":1}]`, sector+sector, same)...),
		"none said":      append(good, list(`[{}]`, sector, same)...),
		"below none":     append(good, list(`[{"Sectors":-1}]`, sector, same)...),
		"half of one":    append(good, list(`[{"Sectors":1}]`, sector[:7], same)...),
		"none there":     append(good, list(`[{"Sectors":1}]`, "-", same)...),
		"twice": append(good, write(t, append([]part{{ProgramsName, `[{"Sectors":1}]`, 0},
			{SectorsName, sector, 0}, {SectorsName, sector, 0}}, same...))...),
		"of no program": append(good, list(`[{"Sectors":1},{"Sectors":-1}]`, sector, same)...),
		"overflow": append(good, list(`[{"Sectors":9223372036854775807},{"Sectors":2}]`, sector,
			same)...),
	} {
		if _, err := OpenFile(bytes.NewReader(file)); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			hasReason(t, err)
		}
	}
	v, err := Open(bytes.NewReader(one)) // from a stream, which has no area
	if err == nil {
		err = v.Each(func(int, Program) (io.WriteCloser, func() error) {
			return &collected{}, func() error { return nil }
		})
	}
	if err == nil {
		t.Error("memory of an area comes through a stream")
	}
}

// TestStrangeWorkersOfAnArea: a worker can't take more than its own program's sectors.
func TestStrangeWorkersOfAnArea(t *testing.T) {
	const k = sectorLength
	_, x := area(0, 'p', 'q')
	for name, s := range map[string]Source{
		"more":        earlySource([]SameRun{{Same: k + 1, From: InArea}}, "", x[0]),
		"behind":      earlySource([]SameRun{{Same: 1, From: InArea | k}}, "", x[0]),
		"without any": earlySource([]SameRun{{Same: 1, From: InArea}}, ""),
		"of a record": earlySource([]SameRun{{Same: 1}}, "", x[0]),
		"taken twice": earlySource([]SameRun{{Same: 9, From: InArea}, {Same: 9,
			From: InArea | 5}}, "", x[0]),
		"its own less": earlySource([]SameRun{{Same: 9, From: InArea, Own: 5}},
			strings.Repeat("x", 4<<20), x[0]),
	} {
		if _, err := Write(io.Discard, VM{}, []Source{s}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
