// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// softEngine copies with the CPU. Staging memory is a file in memory, mapped here.
type softEngine struct {
	threads int
	wake    int
	ended   chan *job // capacity maxSoftJobs: sends never wait
	flying  int
	inline  []*job // ended in start
	copiers sync.WaitGroup
}

const (
	maxSoftJobs = 64
	// Up to inlineBytes are copied faster than a goroutine is woken; part is the least that one
	// goroutine copies.
	inlineBytes = 64 << 10
	part        = 1 << 20
)

func newSoftEngine(threads, wake int) *softEngine {
	if threads <= 0 {
		threads = runtime.NumCPU()
	}
	return &softEngine{threads: threads, wake: wake, ended: make(chan *job, maxSoftJobs)}
}

// softStaging is a mapping of a worker's file.
type softStaging []byte

func (s softStaging) size() uint64 { return uint64(len(s)) }

// attach accepts only memory that can't be cut short: with any other file, the worker could choose
// what happens when it is touched.
func (e *softEngine) attach(fd int, start, bytes uint64) (staging, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("a file that isn't sealed memory: seals %#x, %w", seals,
			errors.Join(errProtocol, err))
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	if size := uint64(st.Size); st.Size < 0 || size > maxStaging || start > size || bytes == 0 ||
		bytes > size-start {
		return nil, fmt.Errorf("file of %d bytes for %d bytes from %#x on: %w", st.Size, bytes,
			start, errProtocol)
	}
	m, err := unix.Mmap(fd, int64(start), int(bytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return softStaging(m), nil
}

func (e *softEngine) detach(s staging) { _ = unix.Munmap(s.(softStaging)) }

func (e *softEngine) start(j *job) bool {
	if e.flying == maxSoftJobs {
		return false
	}
	if j.bytes <= inlineBytes {
		j.status = copyRange(j, 0, j.bytes)
		e.inline = append(e.inline, j)
		return true
	}
	e.flying++
	n := uint64(min(e.threads, int((j.bytes+part-1)/part)))
	each := (j.bytes/n + 4096) &^ 4095 // whole pages, and never 0
	left := &atomic.Int64{}
	failed := &atomic.Uint32{}
	left.Store(int64(n))
	e.copiers.Add(int(n))
	for i := range n {
		go e.copyPart(j, i*each, min((i+1)*each, j.bytes), left, failed)
	}
	return true
}

// copyPart copies bytes [from, to) of a job; the last part to end hands the job back.
func (e *softEngine) copyPart(j *job, from, to uint64, left *atomic.Int64, failed *atomic.Uint32) {
	defer e.copiers.Done()
	if from < to {
		if s := copyRange(j, from, to); s != statusDone {
			failed.Store(uint32(s))
		}
	}
	if left.Add(-1) == 0 {
		j.status = status(failed.Load())
		e.ended <- j
		notify(e.wake)
	}
}

// copyRange copies bytes [from, to) of a job.
func copyRange(j *job, from, to uint64) status {
	memory := j.staging.staging.(softStaging)
	at := uint64(0)
	for i := range j.spans {
		host := j.spans[i].host()
		n := uint64(len(host))
		low, high := max(from, at), min(to, at+n)
		if low < high {
			device := memory[j.offset+low : j.offset+high]
			part := host[low-at : high-at]
			if !j.toDevice {
				device, part = part, device
			}
			if !guardedCopy(device, part) {
				return statusFault
			}
		}
		if at += n; at >= to {
			break
		}
	}
	return statusDone
}

func (e *softEngine) poll(ended func(*job)) {
	for _, j := range e.inline {
		ended(j)
	}
	clear(e.inline)
	e.inline = e.inline[:0]
	for {
		select {
		case j := <-e.ended:
			e.flying--
			ended(j)
		default:
			return
		}
	}
}

func (e *softEngine) busy() bool     { return e.flying+len(e.inline) > 0 }
func (e *softEngine) spins() bool    { return false }
func (e *softEngine) forget(*region) {}
func (e *softEngine) broken() error  { return nil }

// close waits until nobody uses wake: a job ends a moment before its goroutine.
func (e *softEngine) close() { e.copiers.Wait() }
