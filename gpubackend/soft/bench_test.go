// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

func BenchmarkLaunch(b *testing.B) {
	d := newDevice(b, Options{})
	increment := getFunction(b, d, loadFile(b, d, "testdata/small.ptx"), "increment")
	a := alloc(b, d, 4)
	ok(b, d.MemsetD32Async(a, 0, 1, 0))
	b.ReportAllocs()
	for b.Loop() {
		start(b, d, increment, 1, 0, params(a))
	}
	synchronize(b, d)
}

func BenchmarkMemAllocAndFree(b *testing.B) {
	d := newDevice(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		ok(b, d.MemFree(alloc(b, d, 1<<20)))
	}
}

func BenchmarkCopy(b *testing.B) {
	const size = 16 << 20
	d := newDevice(b, Options{})
	dst, src := alloc(b, d, size), alloc(b, d, size)
	ok(b, d.MemsetD8Async(src, 1, size, 0))
	b.SetBytes(size)
	for b.Loop() {
		ok(b, d.Copy(dst, src, size, 0))
		for d.StreamQuery(0) == gpubackend.NotReady {
		}
	}
}

func BenchmarkEventRecord(b *testing.B) {
	d := newDevice(b, Options{})
	e := newEvent(b, d)
	b.ReportAllocs()
	for b.Loop() {
		ok(b, d.EventRecordWithFlags(e, 0, 0))
	}
}
