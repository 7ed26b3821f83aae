// SPDX-License-Identifier: Apache-2.0

package hostfuncs

// #cgo LDFLAGS: -lpthread
// #cgo CFLAGS: -O2 -Wall -Wextra
// #include "node.h"
// #include "pipe.h"
// #include "wait.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
)

// Calls are the host functions in flight.
type Calls struct {
	reader *os.File
	writer *C.struct_pc_pipe

	mu      sync.Mutex
	next    uint64
	pending map[uint64]*wait
	kept    map[uint64]gpubackend.HostCall // of graphs, by token
	nodes   map[uint64]*C.struct_pc_node   // what the driver has of them
	due     map[uint64]bool                // of graphs, that hold their stream
	loose   map[uint64]bool                // tokens of functions that were put into a stream, too
}

type wait struct {
	token  uint64
	at     activity.Place
	run    func(token uint64)
	called bool // the stream has got there
	once   sync.Once
	c      *C.struct_pc_wait
}

// New makes what carries calls. Close ends it.
func New() (*Calls, error) {
	r, w, err := newPipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for host functions: %w", err)
	}
	v := &Calls{
		reader: r, writer: w, pending: make(map[uint64]*wait),
		kept: make(map[uint64]gpubackend.HostCall), due: make(map[uint64]bool),
		nodes: make(map[uint64]*C.struct_pc_node), loose: make(map[uint64]bool),
	}
	go v.serve()
	return v, nil
}

// newPipe makes a pipe: Go reads from it, and threads of the driver write to it.
func newPipe() (*os.File, *C.struct_pc_pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	err := unix.SetNonblock(fds[0], true)
	w := C.pc_pipe_new(C.int32_t(fds[1]))
	if w == nil {
		err = unix.ENOMEM
	}
	if err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "host functions"), w, nil
}

// serve runs until the pipe is closed.
func (v *Calls) serve() {
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
		if w != nil {
			w.called = true
		}
		v.mu.Unlock()
		if w != nil {
			w.run(w.token)
		}
	}
}

func (v *Calls) add(at activity.Place, token uint64, run func(uint64)) (uint64, *wait) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next++
	w := &wait{token: token, at: at, run: run, c: C.pc_wait_new(v.writer, C.uint64_t(v.next))}
	if w.c == nil {
		return 0, nil
	}
	v.pending[v.next] = w
	return v.next, w
}

// Held are the streams that are held by functions that were called. Due has those of graphs.
func (v *Calls) Held() (held []activity.Place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.pending {
		if w.called {
			held = append(held, w.at)
		}
	}
	return held
}

func (v *Calls) release(number uint64, w *wait) {
	w.once.Do(func() {
		v.mu.Lock()
		delete(v.pending, number)
		v.mu.Unlock()
		C.pc_wait_release(w.c)
	})
}

// Close lets every stream go on. Functions that are due later don't wait for anybody.
func (v *Calls) Close() {
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
	C.pc_pipe_close(v.writer)
}

// Once queues a function in a stream of the current context c, by cuLaunchHostFunc: a goroutine
// calls f when the stream gets there, and the stream waits for release.
func (v *Calls) Once(
	launch unsafe.Pointer, c gpubackend.Context, s gpubackend.Stream, token uint64,
	f func(token uint64),
) (release func(), r gpubackend.Result) {
	number, w := v.add(activity.At(c, s), token, f)
	if w == nil {
		return nil, gpubackend.OutOfMemory
	}
	r = gpubackend.Result(C.pc_wait_launch(launch, C.uint64_t(s), w.c))
	if r != gpubackend.Success {
		v.release(number, w)
		return nil, r
	}
	return func() { v.release(number, w) }, r
}
