// SPDX-License-Identifier: Apache-2.0

// Package passestest has a worker for the tests of packages whose memory goes ahead by package
// passes.
package passestest

import (
	"bytes"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Base is the address of a worker's first sector.
const Base = 1 << 44

// Worker has some sectors, each filled with one byte. It copies one in each step.
type Worker struct {
	mu      sync.Mutex
	sectors []byte
	dirty   []bool
	next    int
	buffer  int
	begun   int
	over    int
	says    func() ([]uint64, bool, error)
}

// New returns one with these sectors.
func New(sectors ...byte) *Worker {
	return &Worker{sectors: sectors, dirty: make([]bool, len(sectors)), buffer: -1}
}

// Precopy implements passes.Worker.
func (w *Worker) Precopy(buffer *os.File) (sectors []uint64, over bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if buffer != nil {
		for i := range w.dirty {
			w.dirty[i] = true
		}
		w.next = 0
		w.begun++
		w.buffer, err = unix.FcntlInt(buffer.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return nil, false, err
	}
	if w.says != nil {
		return w.says()
	}
	for ; w.next < len(w.sectors); w.next++ {
		if w.dirty[w.next] {
			b := bytes.Repeat(w.sectors[w.next:w.next+1], sectorsum.Bytes)
			if _, err := unix.Pwrite(w.buffer, b, 0); err != nil {
				return nil, false, err
			}
			w.dirty[w.next] = false
			sectors = []uint64{Base + uint64(w.next)*sectorsum.Bytes}
			w.next++
			break
		}
	}
	if over = w.next == len(w.sectors); over {
		w.next = 0
	}
	return sectors, over, nil
}

// PrecopyOver implements passes.Worker.
func (w *Worker) PrecopyOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over++
	_ = unix.Close(w.buffer)
}

// Write changes a sector.
func (w *Worker) Write(sector int, with byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sectors[sector], w.dirty[sector] = with, true
}

// Says makes f answer in place of a step; nil: it does what it should.
func (w *Worker) Says(f func() ([]uint64, bool, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.says = f
}

// Changed are the numbers of the sectors that have changed since they were copied.
func (w *Worker) Changed() (list []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, dirty := range w.dirty {
		if dirty {
			list = append(list, i)
		}
	}
	return list
}

// Sectors are what it has, a byte for each sector.
func (w *Worker) Sectors() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.sectors)
}

// Told is how often it was told to begin, and that all is over.
func (w *Worker) Told() (begun, over int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun, w.over
}
