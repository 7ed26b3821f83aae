// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/wire"
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
