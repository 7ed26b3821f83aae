// SPDX-License-Identifier: Apache-2.0

package cuda

// #include "driver.h"
// #include "graph.h"
import "C"

import (
	"encoding/binary"
	"io"
	"os"
	"sync"

	"github.com/paracuda/paracuda/gpubackend"
)

// waits are the host functions in flight. The driver's thread writes a number to a pipe and then holds the stream;
// a goroutine reads the numbers and calls the functions. No Go code runs on a thread of the driver.
type waits struct {
	reader, writer *os.File

	mu      sync.Mutex
	next    uint64
	pending map[uint64]*wait
	kept    map[uint64]gpubackend.HostCall // of graphs, by token
	nodes   map[uint64]*C.struct_pc_node   // what the driver has of them
	calls   map[uint64]bool                // of graphs, that hold their stream
}

type wait struct {
	token uint64
	run   func(token uint64)
	once  sync.Once
	c     *C.struct_pc_wait
}

func newWaits() (*waits, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	v := &waits{
		reader: r, writer: w, pending: make(map[uint64]*wait),
		kept: make(map[uint64]gpubackend.HostCall), calls: make(map[uint64]bool), nodes: make(map[uint64]*C.struct_pc_node),
	}
	go v.serve()
	return v, nil
}

// serve runs until the pipe is closed.
func (v *waits) serve() {
	var b [8]byte
	for {
		if _, err := io.ReadFull(v.reader, b[:]); err != nil {
			return
		}
		number := binary.NativeEndian.Uint64(b[:])
		if number&nodeCall != 0 {
			v.callNode(number &^ nodeCall)
			continue
		}
		v.mu.Lock()
		w := v.pending[number]
		v.mu.Unlock()
		if w != nil {
			w.run(w.token)
		}
	}
}

func (v *waits) add(token uint64, run func(uint64)) (uint64, *wait) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next++
	// The descriptor is read once: Fd would make the file blocking, which a pipe's writer may as well be.
	w := &wait{token: token, run: run, c: C.pc_wait_new(C.int32_t(v.writer.Fd()), C.uint64_t(v.next))}
	if w.c == nil {
		return 0, nil
	}
	v.pending[v.next] = w
	return v.next, w
}

func (v *waits) release(number uint64, w *wait) {
	w.once.Do(func() {
		v.mu.Lock()
		delete(v.pending, number)
		v.mu.Unlock()
		C.pc_wait_release(w.c)
	})
}

// close lets every stream go on.
func (v *waits) close() {
	v.mu.Lock()
	left := make(map[uint64]*wait, len(v.pending))
	for n, w := range v.pending {
		left[n] = w
	}
	v.mu.Unlock()
	for n, w := range left {
		v.release(n, w)
	}
	v.endNodes()
	_ = v.reader.Close()
}

// HostFunc has f called by a goroutine when the stream gets there; the stream waits for release.
func (d *Device) HostFunc(s gpubackend.Stream, token uint64, f func(token uint64)) (func(), gpubackend.Result) {
	if d.function[symLaunchHostFunc] == nil {
		return nil, gpubackend.NotSupported
	}
	v, result := d.hostCalls()
	if result != gpubackend.Success {
		return nil, result
	}
	number, w := v.add(token, f)
	if w == nil {
		return nil, gpubackend.OutOfMemory
	}
	if d.active != nil {
		d.active.touch(s)
	}
	r := gpubackend.Result(C.pc_wait_launch(d.function[symLaunchHostFunc], C.uint64_t(s), w.c))
	if r != gpubackend.Success {
		v.release(number, w)
		return nil, d.failed(r)
	}
	return func() { v.release(number, w) }, r
}

// hostCalls makes what carries calls of host functions, on first use.
func (d *Device) hostCalls() (*waits, gpubackend.Result) {
	if d.waits == nil {
		v, err := newWaits()
		if err != nil {
			d.log.WithError(err).Error("host function")
			return nil, gpubackend.OutOfMemory
		}
		d.waits = v
	}
	return d.waits, gpubackend.Success
}
