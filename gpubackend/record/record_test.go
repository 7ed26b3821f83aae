// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var here = Header{
	GPU: "soft", Version: "1.2.3", VM: "training", Saved: time.Unix(1700000000, 0),
}

// part is a section with its content.
type part struct {
	Section
	content []byte
}

func parts() []part {
	r := rand.New(rand.NewPCG(3, 4))
	list := []part{
		{Section: Section{0, "vm", 5}}, {Section: Section{0, "settings", 0}},
		{Section: Section{1, "objects", 77}}, {Section: Section{1, "memory", stretchBytes}},
		{Section: Section{2, "memory", 2*stretchBytes + 1}},
	}
	for i := range list {
		list[i].content = make([]byte, list[i].Bytes)
		for j := range list[i].content {
			list[i].content[j] = byte(r.Uint32())
		}
	}
	return list
}

// written is a record that was written by writes of at most piece bytes.
func written(t testing.TB, list []part, piece int) []byte {
	t.Helper()
	var b bytes.Buffer
	write(t, &b, list, piece)
	return b.Bytes()
}

// write writes a record by writes of at most piece bytes.
func write(t testing.TB, to io.Writer, list []part, piece int) {
	t.Helper()
	w, err := NewWriter(to, here)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if err := w.Begin(p.Section); err != nil {
			t.Fatal(err)
		}
		for rest := p.content; len(rest) > 0; {
			n, err := w.Write(rest[:min(piece, len(rest))])
			if err != nil || n != min(piece, len(rest)) {
				t.Fatal(n, err)
			}
			rest = rest[n:]
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a record, and checks everything.
func readAll(from io.Reader) (list []part, h Header, err error) {
	r, err := NewReader(from)
	if err != nil {
		return nil, h, err
	}
	for {
		s, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, r.Header, nil
		}
		if err != nil {
			return list, h, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return list, h, err
		}
		list = append(list, part{s, content})
	}
}

func anything(*Reader, Section) error { return nil }

func TestRoundTrip(t *testing.T) {
	want := parts()
	var sections []Section
	for _, p := range want {
		sections = append(sections, p.Section)
	}
	whole := written(t, want, 1<<30)
	if uint64(len(whole)) != Size(sections) {
		t.Errorf("%d bytes, and %d were foretold", len(whole), Size(sections))
	}
	if !bytes.Equal(whole, written(t, want, 4097)) {
		t.Error("how it is written makes a difference")
	}
	for name, from := range map[string]io.Reader{
		"whole": bytes.NewReader(whole), "halves": iotest.HalfReader(bytes.NewReader(whole)),
	} {
		got, h, err := readAll(from)
		if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(h, here) {
			t.Errorf("%s: %d sections of %+v, error %v", name, len(got), h, err)
		}
	}
	s, err := Check(bytes.NewReader(whole), anything)
	if err != nil || s.Programs != 2 || s.Sections != 5 || s.Bytes != 3*stretchBytes+83 {
		t.Errorf("%+v, %v", s, err)
	}
	again, _ := Check(bytes.NewReader(whole), anything)
	want[4].content[stretchBytes]++
	other, _ := Check(bytes.NewReader(written(t, want, 1<<30)), anything)
	if s.Sum != again.Sum || s.Sum == other.Sum {
		t.Errorf("sums %#x, %#x again, %#x of another", s.Sum, again.Sum, other.Sum)
	}
}

// TestLargeReads: large content is read directly to its destination, and its checksum is checked
// there.
func TestLargeReads(t *testing.T) {
	list := parts()
	whole := written(t, list, 1<<30)
	for _, damaged := range []bool{false, true} {
		if damaged {
			whole[len(whole)-stretchBytes]++
		}
		r, err := NewReader(bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		for range list {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, 2*stretchBytes+1)
		_, err = io.ReadFull(r, got)
		if (err != nil) != damaged || !damaged && !bytes.Equal(got, list[4].content) {
			t.Errorf("damaged %t: %v", damaged, err)
		}
	}
}

// TestEveryByteCounts: a record with any byte changed is refused, and so is one that is cut short
// anywhere.
func TestEveryByteCounts(t *testing.T) {
	list := []part{
		{Section{0, "vm", 3}, []byte("abc")}, {Section{1, "objects", 0}, nil},
		{Section{1, "memory", 300}, bytes.Repeat([]byte{9}, 300)},
	}
	whole := written(t, list, 1<<30)
	if _, err := Check(bytes.NewReader(whole), anything); err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for _, bit := range []byte{1, 0x80} {
			b := bytes.Clone(whole)
			b[i] ^= bit
			if _, err := Check(bytes.NewReader(b), anything); !errors.Is(err, ErrRecord) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		_, err := Check(bytes.NewReader(whole[:i]), anything)
		if !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), "cut short") {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
	s, err := Check(bytes.NewReader(append(whole, 0)), anything)
	if err != nil || s.Length != int64(len(whole)) {
		t.Errorf("with a byte behind it: %+v, %v", s, err)
	}
}

// TestBlocksInAnotherOrder: a record is refused if its blocks are in another order, if a section is
// left out, or if one is of another record.
func TestBlocksInAnotherOrder(t *testing.T) {
	list := parts()[4:]
	list[0].Program, list[0].Bytes = 1, 2*stretchBytes
	list[0].content = list[0].content[:2*stretchBytes]
	whole := written(t, list, 1<<30)
	first := headBytes + markBytes
	second := first + stretchBytes + sumBytes
	b := bytes.Clone(whole)
	copy(b[first:], whole[second:second+stretchBytes+sumBytes])
	copy(b[second:], whole[first:first+stretchBytes+sumBytes])
	if _, err := Check(bytes.NewReader(b), anything); !errors.Is(err, ErrRecord) {
		t.Errorf("in another order: %v", err)
	}
	left := append(bytes.Clone(whole[:headBytes]), whole[second+stretchBytes+sumBytes:]...)
	if _, err := Check(bytes.NewReader(left), anything); !errors.Is(err, ErrRecord) {
		t.Errorf("a section is left out: %v", err)
	}
	list[0].content = append([]byte{1}, list[0].content[1:]...)
	other := written(t, list, 1<<30)
	copy(other[second:], whole[second:])
	if _, err := Check(bytes.NewReader(other), anything); !errors.Is(err, ErrRecord) {
		t.Errorf("of another record: %v", err)
	}
}

// hostile is a record with good checksums and arbitrary contents.
func hostile(x head, marks ...title) []byte {
	var s sum
	var b []byte
	add := func(x any) {
		part, _ := binary.Append(nil, binary.LittleEndian, x)
		s.add(part)
		b = append(append(b, part...), s.bytes()...)
	}
	add(&x)
	for _, m := range marks {
		add(&m)
	}
	return b
}

func goodHead() head { return head{Magic: magic, Format: format, Bytes: headBytes} }

func nameOf(s string) (name [32]byte) {
	copy(name[:], s)
	return name
}

// TestHostile: a wrong record is refused with the reason, though all checksums are right, and
// nothing is allocated because a record claims a size.
func TestHostile(t *testing.T) {
	marked := func(program uint32, bytes uint64, name string) title {
		return title{Program: program, Bytes: bytes, Name: nameOf(name)}
	}
	for name, test := range map[string]struct {
		head  func(*head)
		marks []title
		want  string
	}{
		"too new":    {head: func(h *head) { h.Format++ }, want: "format 3"},
		"not ours":   {head: func(h *head) { h.Magic[0]++ }, want: "none of Paracuda's"},
		"longer":     {head: func(h *head) { h.Bytes++ }, want: "a header that"},
		"reserved":   {head: func(h *head) { h.Zero[35] = 1 }, want: "a header that"},
		"a terminal": {head: func(h *head) { h.VM[0] = 27 }, want: "isn't printable"},
		"not UTF-8":  {head: func(h *head) { h.GPU[0] = 0xff }, want: "isn't printable"},
		"a hole":     {head: func(h *head) { h.Version[3] = 'a' }, want: "isn't printable"},
		"no name":    {marks: []title{{}}, want: "an invalid name"},
		"a bad name": {marks: []title{marked(0, 0, "../x")}, want: "an invalid name"},
		"a gap":      {marks: []title{marked(2, 0, "x")}, want: "after one of"},
		"backwards": {
			marks: []title{marked(1, 0, "x"), marked(0, 0, "x")}, want: "after one",
		},
		"programs":    {marks: []title{marked(MaxPrograms+1, 0, "x")}, want: "than 1024 programs"},
		"bytes":       {marks: []title{marked(0, 1<<62+1, "x")}, want: "too many bytes"},
		"more bytes":  {marks: []title{marked(0, 1<<62, "x")}, want: "cut short"},
		"end of one":  {marks: []title{marked(1, 0, endName)}, want: "an end that"},
		"long end":    {marks: []title{marked(0, 17, endName)}, want: "an end that"},
		"unknown one": {marks: []title{marked(0, 0, "novel")}, want: `"novel" of program 0: no`},
	} {
		t.Run(name, func(t *testing.T) {
			h := goodHead()
			if test.head != nil {
				test.head(&h)
			}
			b := bytes.NewReader(hostile(h, test.marks...))
			_, err := Check(b, func(_ *Reader, s Section) error {
				if s.Name == "novel" {
					return errors.New("no")
				}
				return nil
			})
			if !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestWrongEnd: an end with another number of sections is refused.
func TestWrongEnd(t *testing.T) {
	b := hostile(goodHead(), title{Name: nameOf("x")},
		title{Bytes: endBytes, Name: nameOf(endName)})
	for sections, good := range map[uint64]bool{1: true, 2: false} {
		var s sum
		s.add(b[:headBytes-sumBytes])
		s.add(b[headBytes : headBytes+markBytes-sumBytes])
		s.add(b[headBytes+markBytes : headBytes+2*markBytes-sumBytes])
		content, _ := binary.Append(nil, binary.LittleEndian, &end{Sections: sections})
		s.add(content)
		whole := append(append(bytes.Clone(b), content...), s.bytes()...)
		_, err := Check(bytes.NewReader(whole), anything)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "its end says") {
			t.Errorf("%d sections: %v", sections, err)
		}
	}
}

func TestSuits(t *testing.T) {
	saved := here
	saved.VM, saved.Saved = "other", time.Now()
	if err := saved.Suits(here); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Header){
		"GPU": func(h *Header) { h.GPU = "x" }, "version": func(h *Header) { h.Version = "x" },
	} {
		other := here
		change(&other)
		if err := saved.Suits(other); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// failing accepts left bytes, and then fails.
type failing struct{ left int }

var errFull = errors.New("no space left")

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, errFull
	}
	f.left -= len(p)
	return len(p), nil
}

func TestWriterRefuses(t *testing.T) {
	if _, err := NewWriter(io.Discard, Header{VM: strings.Repeat("x", 65)}); err == nil {
		t.Error("a name that is too long")
	}
	if _, err := NewWriter(io.Discard, Header{GPU: "a\nb"}); err == nil {
		t.Error("a text of two lines")
	}
	w, err := NewWriter(&failing{headBytes + markBytes + 9}, here)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Section{{0, endName, 0}, {0, "A", 0}, {0, "", 0}, {2, "x", 0},
		{0, strings.Repeat("x", 33), 0}, {0, "x", 1<<62 + 1}} {
		if w.Begin(s) == nil {
			t.Errorf("a section %+v", s)
		}
	}
	if err := w.Begin(Section{0, "x", 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 11)); err == nil {
		t.Error("more content than the section has")
	}
	if w.Begin(Section{0, "y", 0}) == nil || w.End() == nil {
		t.Error("a section without its content")
	}
	if _, err := w.Write(make([]byte, 10)); !errors.Is(err, errFull) {
		t.Errorf("no room: %v", err)
	}
	w, err = NewWriter(io.Discard, here)
	if err != nil || w.End() != nil || w.End() == nil || w.Begin(Section{0, "x", 0}) == nil {
		t.Error("a record ends twice, or goes on behind its end")
	}
}

// FuzzRecord: the reader accepts only records that the writer would write.
func FuzzRecord(f *testing.F) {
	f.Add(written(f, nil, 1))
	f.Add(written(f, []part{
		{Section{0, "vm", 3}, []byte("abc")}, {Section{1, "memory", 0}, nil},
	}, 1))
	f.Add(hostile(goodHead(), title{Bytes: 1 << 40, Name: nameOf("memory")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, h, err := readAll(bytes.NewReader(b))
		if _, checked := Check(bytes.NewReader(b), anything); err != nil && checked == nil {
			t.Fatalf("good when checked, else %v", err)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		w, err := NewWriter(&again, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if err := w.Begin(p.Section); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(p.content); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(); err != nil || !bytes.HasPrefix(b, again.Bytes()) {
			t.Fatalf("another record, error %v", err)
		}
	})
}
