// SPDX-License-Identifier: Apache-2.0

package cmem

import (
	"bytes"
	"slices"
	"testing"
)

func TestBlocks(t *testing.T) {
	b := Copied([]byte("text"), 12)
	defer b.Free()
	if b.Len() != 16 || b.Address()%16 != 0 {
		t.Errorf("%d bytes at %#x", b.Len(), b.Address())
	}
	if got := TextAt(b.Address()); got != "text" {
		t.Errorf("text %q", got)
	}
	if got := At(b.Address(), 16); !bytes.Equal(got, append([]byte("text"), make([]byte, 12)...)) {
		t.Errorf("bytes %q", got)
	}
	if got := BytesAt(b.Address()+1, 2); string(got) != "ex" {
		t.Errorf("copy %q", got)
	}
	if TextAt(0) != "" {
		t.Error("text where there is none")
	}
}

func TestNothingHasNoAddress(t *testing.T) {
	none, handles := Optional(nil), Handles[uint64](nil)
	if none.Address() != 0 || handles.Address() != 0 || WordsAt(0, 5) != nil ||
		WordsAt(8, 0) != nil {
		t.Error("nothing has an address")
	}
	none.Free()
	least := Allocate(0)
	if least.Address() == 0 {
		t.Error("a block of no bytes has no address")
	}
	least.Free()
	if least.Address() != 0 {
		t.Error("a freed block has an address")
	}
}

func TestHandlesAreWords(t *testing.T) {
	want := []uint64{1, 1 << 63, 7}
	b := Handles(want)
	defer b.Free()
	if got := b.Words(); !slices.Equal(got, want) {
		t.Errorf("words %x", got)
	}
	odd := Allocate(23)
	defer odd.Free()
	if got := odd.Words(); len(got) != 2 {
		t.Errorf("%d words of 23 bytes", len(got))
	}
}
