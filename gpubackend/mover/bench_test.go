// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"strconv"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// memoryOf is guest memory without a server.
func memoryOf(tb testing.TB, regions []guestmem.Region) *memory {
	tb.Helper()
	m := &memory{}
	for _, r := range regions {
		g, err := openRegion(regionKey{guest: r.GuestAddr, size: r.Size, offset: r.FileOffset},
			r.FD)
		if err != nil {
			tb.Fatal(err)
		}
		m.regions = append(m.regions, g)
	}
	tb.Cleanup(func() { closeRegions(m.regions) })
	return m
}

// BenchmarkScattered measures what the mover's processor does per page of a request of single
// pages, without the ring and the GPU. To move a page takes 75 ns.
func BenchmarkScattered(b *testing.B) {
	const pages, n = 2048, 64 << 20
	_, regions := guest(b, n)
	m := memoryOf(b, regions)
	var record []byte
	q := request{staging: 1, toDevice: true}
	for i := range uint64(pages) {
		q.runs = append(q.runs, wire.Run{Address: guestBase + (i*7919%(n/8192))*8192, Bytes: 4096})
	}
	record = appendRecord(record, &q)
	e := &cudaEngine{threshold: DefaultThreshold}
	e.setRegistered(DefaultRegistered)
	for _, r := range m.regions {
		r.granules = []granuleState{granulePinned}
	}
	s := &flight{list: make([]byte, listRuns*listEntry)}
	j := &job{staging: &lent{staging: cudaStaging{1 << 40, 1 << 30, nil}}, toDevice: true}
	var runs []wire.Run
	b.ResetTimer()
	for range b.N {
		got, ok, err := decodeRequest(record, runs[:0])
		if err != nil || !ok {
			b.Fatal(err)
		}
		runs = got.runs
		if j.spans, j.bytes, ok = m.appendSpans(j.spans[:0], runs, 1<<30); !ok {
			b.Fatal("not guest memory")
		}
		if s.n = 0; e.queueSpans(s, j) != 0 || s.n != pages {
			b.Fatalf("%d entries", s.n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pages, "ns/page")
}

// BenchmarkVouched measures what it takes to find the pages of a request by a voucher: for a copy
// of 128 KiB, and for one of 8 MiB. BenchmarkScattered has what is done with them afterwards.
func BenchmarkVouched(b *testing.B) {
	for _, pages := range []int{32, 2048} {
		b.Run(strconv.Itoa(pages), func(b *testing.B) {
			d, region := newDriver(b, driversOwn+2*2048*4096)
			var list []wire.Run
			for i := range uint64(pages) {
				list = append(list,
					wire.Run{Address: guestBase + driversOwn + i*8192, Bytes: 4096})
			}
			d.Vouch(0, 1, wire.MapFlagWrite, list)
			m := memoryOf(b, []guestmem.Region{region})
			q := request{voucher: 1, runs: []wire.Run{{Bytes: uint64(pages) * 4096}}}
			c := &conn{vouchers: vouchers.Exposure{Root: d.Root}, dirty: &dirtylog.Switch{}}
			b.ReportAllocs()
			for b.Loop() {
				var u vouchedUse
				if runs, s := c.runsOf(&u, m, &q); s != statusDone || len(runs) != pages {
					b.Fatalf("status %d, %d runs", s, len(runs))
				}
				u.end(c.dirty)
			}
		})
	}
}
