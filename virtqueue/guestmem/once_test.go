// SPDX-License-Identifier: Apache-2.0

package guestmem_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// TestManyParts: random parts, of which many overlap, are moved at once as they are one by one, in
// a memory that is mapped as a whole and in a sparse one.
func TestManyParts(t *testing.T) {
	t.Parallel()
	g := spans(t)
	sparse := sparseOf(t, g)
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var parts []guestmem.Extent
		var want []byte
		for range 1 + random.IntN(150) {
			n := random.Uint64N(2*page + 1)
			x := guestmem.Extent{Addr: page + random.Uint64N(2*page-n+1), Bytes: n}
			parts, want = append(parts, x), append(want, g.Read(x.Addr, n)...)
		}
		for name, m := range map[string]*guestmem.Memory{"whole": g.Mem, "sparse": sparse} {
			got := make([]byte, len(want))
			if err := m.ReadOnce(got, parts...); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %d parts are read otherwise: %v", name, len(parts), err)
			}
		}
		text := make([]byte, len(want))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		if err := sparse.WriteOnce(text, parts...); err != nil {
			t.Fatal(err)
		}
		after := g.Read(page, 2*page)
		if err := g.Mem.WriteOnce(text, parts...); err != nil ||
			!bytes.Equal(after, g.Read(page, 2*page)) {
			t.Fatalf("%d parts are written otherwise: %v", len(parts), err)
		}
	}
	before := g.Read(page, 2*page)
	for _, m := range []*guestmem.Memory{g.Mem, sparse} {
		bad := guestmem.Extent{Addr: 3*page - 1, Bytes: 2}
		if err := m.ReadOnce(make([]byte, 2), bad); !errors.Is(err, guestmem.ErrRange) {
			t.Errorf("a part in a hole is read: %v", err)
		}
	}
	err := sparse.WriteOnce([]byte("text"), guestmem.Extent{Addr: page, Bytes: 2},
		guestmem.Extent{Addr: 3*page - 1, Bytes: 2})
	if !errors.Is(err, guestmem.ErrRange) || !bytes.Equal(before, g.Read(page, 2*page)) {
		t.Errorf("a part in a hole is written, or those before it are: %v", err)
	}
}
