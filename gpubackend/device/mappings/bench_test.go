// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/mapleave/mapleavetest"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/vouchers/voucherstest"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// scattered is a worker whose program has pinned so many pages, none next to another, as map 1; and
// the file that they are in.
func scattered(b *testing.B, pages int) (a *mapleavetest.Asker, runs []wire.Run, file int) {
	const own = 4 << 20
	r := newRigOf(b, own+2*uint64(pages)*page)
	mem, err := r.guest.Mem.Slice(0, own)
	if err != nil {
		b.Fatal(err)
	}
	d := voucherstest.New(b, mem, 0, own)
	d.Root = d.Page()
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(pages) {
		runs = append(runs, wire.Run{Address: own + 2*uint64(i)*page, Bytes: page})
	}
	d.Vouch(3, 1, wire.MapFlagWrite, append([]wire.Run(nil), runs...))
	r.root.Store(d.Root)
	r.RAM.Put(r.guest.Mem)
	a = mapleavetest.New(b)
	w := r.worker()
	w.Serve(3, workers.Program{})
	r.confined(w, a.Listener, "")
	b.Cleanup(func() { _ = unix.Close(mapleavetest.From) })
	return a, runs, r.guest.FDs[0]
}

// least reports the shortest time of a run, which another process that computes doesn't change.
func least(b *testing.B, a *mapleavetest.Asker, per int, f func() error) {
	least := time.Hour
	for b.Loop() {
		a.Do(func() {
			begin := time.Now()
			if err := f(); err != nil {
				b.Error(err)
			}
			least = min(least, time.Since(begin))
		})
	}
	b.ReportMetric(float64(least.Nanoseconds())/float64(per), "least-ns/page")
}

// BenchmarkArguments is how long it takes to read pages with arguments.
func BenchmarkArguments(b *testing.B) {
	for _, pages := range []int{1, 16, 450} {
		b.Run(fmt.Sprint(pages, " pages"), func(b *testing.B) {
			a, runs, _ := scattered(b, pages)
			end := runs[0].Address
			for _, r := range runs {
				end = max(end, r.Address+r.Bytes)
			}
			m, err := guestmem.NewNumbered([]guestmem.Numbered{{
				Region: guestmem.Region{Size: end, FD: mapleavetest.From},
				ReadFD: mapleavetest.From, Piece: page}})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			var parts []guestmem.Extent
			for i, r := range runs {
				by := vouchers.Reason{Kind: vouchers.Pages, Chain: 1, Index: uint32(i)}
				parts = append(parts, guestmem.Extent{Addr: r.Address, Bytes: page, By: by.Right()})
			}
			buffer := make([]byte, pages*page)
			least(b, a, pages, func() error { return m.ReadOnce(buffer, parts...) })
		})
	}
}

// BenchmarkPinned is how long it takes to map 64 MiB that a program has pinned, page by page, and
// to unmap them: with leave, and from a file of one's own.
func BenchmarkPinned(b *testing.B) {
	const pages = 16384
	a, runs, file := scattered(b, pages)
	for name, fd := range map[string]int{"asked": mapleavetest.From, "own": file} {
		b.Run(name, func(b *testing.B) {
			var files []guestmem.Run
			for i, r := range runs {
				by := vouchers.Reason{Kind: vouchers.Pages, Chain: 1, Index: uint32(i)}
				files = append(files, guestmem.Run{Bytes: make([]byte, page), FD: fd,
					FileOffset: r.Address, Right: by.Right()})
			}
			least(b, a, pages, func() error {
				_, unmap, err := arena.Map(files, 0, true)
				if err == nil {
					unmap()
				}
				return err
			})
		})
	}
}
