// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
)

// TestDescriptors: what descriptors stand for is in the file, before the programs, which are read
// as without it.
func TestDescriptors(t *testing.T) {
	want := []byte("what descriptors stand for")
	var b bytes.Buffer
	if _, err := Write(&b, VM{Descriptors: want}, []Source{source("a", parts())}); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(bytes.NewReader(b.Bytes()))
	if err != nil || !bytes.Equal(f.Last().Descriptors, want) {
		t.Fatalf("%q, %v", f.Last().Descriptors, err)
	}
	var c collected
	err = f.Last().Each(func(int, Program) (io.WriteCloser, func() error) {
		return &c, func() error { return nil }
	})
	if err != nil || !c.closed || c.Len() == 0 {
		t.Errorf("the program isn't read: %v", err)
	}
	b.Reset()
	if _, err := Write(&b, VM{}, []Source{source("a", parts())}); err != nil {
		t.Fatal(err)
	}
	if f, err := OpenFile(bytes.NewReader(b.Bytes())); err != nil || f.Last().Descriptors != nil {
		t.Errorf("%v, descriptors of a VM that has none", err)
	}
}

// TestDescriptorsElsewhere: the section can be there once, with something in it, and right behind
// the programs; and it is bounded.
func TestDescriptorsElsewhere(t *testing.T) {
	good := suspendedThrice(t)[0]
	section := func(bytes int) part {
		return part{name: DescriptorsName, content: string(make([]byte, bytes))}
	}
	for name, x := range map[string]struct {
		at     int
		insert []part
		good   bool
	}{
		"once":           {1, []part{section(9)}, true},
		"as much as can": {1, []part{section(MaxDescriptors)}, true},
		"too much":       {1, []part{section(MaxDescriptors + 1)}, false},
		"nothing":        {1, []part{section(0)}, false},
		"twice":          {1, []part{section(9), section(9)}, false},
		"first":          {0, []part{section(9)}, false},
	} {
		file := encode(t, [][]part{slices.Insert(slices.Clone(good), x.at, x.insert...)})
		_, err := OpenFile(bytes.NewReader(file))
		if (err == nil) != x.good || err != nil && !errors.Is(err, ErrSaved) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
