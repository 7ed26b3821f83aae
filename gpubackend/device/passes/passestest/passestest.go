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
	filed   []byte // what the file has of it, from which the program went on; nil: nothing
	dirty   []bool
	ahead   []bool // those that were copied
	next    int
	buffer  int
	begun   int
	over    int
	says    func() ([]uint64, bool, error)
}

// New returns one with these sectors.
func New(sectors ...byte) *Worker {
	return &Worker{sectors: sectors, dirty: make([]bool, len(sectors)),
		ahead: make([]bool, len(sectors)), buffer: -1}
}

// File notes that the program goes on from a file that has its sectors.
func (w *Worker) File() { w.filed = bytes.Clone(w.sectors) }

// Precopy implements passes.Worker.
func (w *Worker) Precopy(
	buffer *os.File, filed bool,
) (sectors []uint64, over bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if buffer != nil {
		for i := range w.dirty {
			w.dirty[i] = !filed || w.filed == nil || w.filed[i] != w.sectors[i]
			w.ahead[i] = false
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
			w.dirty[w.next], w.ahead[w.next] = false, true
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

// Where tells of each sector where its content is: in a copy, with the number among these; in the
// file; or nowhere.
func (w *Worker) Where(sector int) (copied, filed bool, number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, is := range w.ahead[:sector] {
		if is {
			number++
		}
	}
	copied = w.ahead[sector] && !w.dirty[sector]
	filed = !w.ahead[sector] && w.filed != nil && w.filed[sector] == w.sectors[sector]
	return copied, filed, number
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
