// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
	"github.com/paracuda/paracuda/gpubackend/soft/printf"
)

// builtinFunc executes a call of a function that the driver provides.
type builtinFunc func(w *warp, site *decoded.CallSite, m uint32)

// builtinFuncs are those functions.
var builtinFuncs = [decoded.Builtins]builtinFunc{
	decoded.BuiltinPrintf: printfOf, decoded.BuiltinMalloc: mallocOf, decoded.BuiltinFree: freeOf,
	decoded.BuiltinAssert: assertOf, decoded.BuiltinSetConditional: setConditionalOf,
}

// argument is a lane's value for a parameter.
func (w *warp) argument(value decoded.Value, lane int) uint64 {
	return loadstore.Peek(w.localOf(value, lane), uint8(value.Size))
}

func (w *warp) localOf(value decoded.Value, lane int) uintptr {
	return w.LocalBase + uintptr(lane)*uintptr(w.LocalStride) + uintptr(w.frame.local+value.At)
}

// result stores a lane's result if the call has one.
func (w *warp) result(site *decoded.CallSite, lane int, value uint64) {
	if len(site.Results) > 0 {
		loadstore.Poke(w.localOf(site.Results[0], lane), uint8(site.Results[0].Size), value)
	}
}

func mallocOf(w *warp, site *decoded.CallSite, m uint32) {
	for s := m; s != 0; s &= s - 1 {
		lane := lanes.First(s)
		var addr uint64
		if heap := w.block.run.Heap; heap != nil {
			addr = heap.Malloc(w.argument(site.Args[0], lane))
		}
		w.result(site, lane, addr)
	}
}

func freeOf(w *warp, site *decoded.CallSite, m uint32) {
	for s := m; s != 0; s &= s - 1 {
		lane := lanes.First(s)
		addr := w.argument(site.Args[0], lane)
		if addr == 0 {
			continue
		}
		if heap := w.block.run.Heap; heap == nil || !heap.Free(addr) {
			w.failAt(lane, cudaabi.ErrorLaunchFailed, "free of %#x, which malloc didn't give", addr)
			return
		}
	}
}

// setConditionalOf sets the condition of a node of the graph that the kernel belongs to.
func setConditionalOf(w *warp, site *decoded.CallSite, m uint32) {
	for s := m; s != 0; s &= s - 1 {
		lane := lanes.First(s)
		handle, value := w.argument(site.Args[0], lane), uint32(w.argument(site.Args[1], lane))
		if set := w.block.run.SetConditional; set == nil || !set(handle, value) {
			w.failAt(lane, cudaabi.ErrorLaunchFailed, "%#x is no conditional handle", handle)
			return
		}
	}
}

// maxString bounds the strings that printf and assert read.
const maxString = 1 << 16

// text reads a NUL-terminated string of device memory.
func (w *warp) text(addr uint64, lane int) (string, bool) {
	var b bytes.Buffer
	for b.Len() < maxString {
		p := w.Resolve(addr+uint64(b.Len()), lane, 1, false)
		if p == 0 {
			return "", false
		}
		c := byte(loadstore.Peek(p, 1))
		if c == 0 {
			break
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// assertOf prints the message of a failed assertion for each lane.
func assertOf(w *warp, site *decoded.CallSite, m uint32) {
	for s := m; s != 0; s &= s - 1 {
		lane := bits.TrailingZeros32(s)
		expr, ok1 := w.text(w.argument(site.Args[0], lane), lane)
		file, ok2 := w.text(w.argument(site.Args[1], lane), lane)
		function, ok3 := w.text(w.argument(site.Args[3], lane), lane)
		if !ok1 || !ok2 || !ok3 {
			return
		}
		message := fmt.Sprintf("%s:%d: %s: block: %v, thread: %v Assertion `%s` failed.\n", file,
			w.argument(site.Args[2], lane), function, w.block.id, w.tid(uint32(lane)), expr)
		w.block.run.write(w.block.run.Assert, []byte(message))
	}
	w.failAt(lanes.First(m), cudaabi.ErrorAssert, "assertion failed")
}

// laneReader reads memory for a lane.
type laneReader struct {
	w    *warp
	lane int
}

func (r laneReader) Word(addr, size uint64) (word uint64, ok bool) {
	p := r.w.Resolve(addr, r.lane, size, false)
	if p == 0 {
		return 0, false
	}
	return loadstore.Peek(p, uint8(size)), true
}

func (r laneReader) Text(addr uint64) (text string, ok bool) { return r.w.text(addr, r.lane) }

// printfOf prints for each lane.
func printfOf(w *warp, site *decoded.CallSite, m uint32) {
	for s := m; s != 0; s &= s - 1 {
		lane := lanes.First(s)
		format, ok := w.text(w.argument(site.Args[0], lane), lane)
		if !ok {
			return
		}
		message, count, ok := printf.Format(format, w.argument(site.Args[1], lane),
			laneReader{w, lane})
		if !ok {
			return
		}
		w.block.run.write(w.block.run.Stdout, message)
		w.result(site, lane, uint64(count))
	}
}
