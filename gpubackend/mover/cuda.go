// SPDX-License-Identifier: Apache-2.0

package mover

import (
	_ "embed" // for the kernel
	"encoding/binary"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	cudadriver "github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

//go:embed copy_runs.ptx
var copyRuns []byte

const (
	cudaJobs = 16 // under way at a time, each with a stream and a list
	// listRuns is how many runs a list holds: those of the largest request, some of them cut into
	// spans.
	listRuns   = 4 * maxRuns
	listEntry  = 32
	blocks     = 128
	threads    = 256
	warps      = threads / 32 // in a block; each takes an entry at a time
	fewRuns    = 2            // up to so many are left to the copy engines, whatever their length
	cut        = 16 << 10     // a run for the kernel is cut to this, so that warps have even work
	bounceSize = 1 << 20
	batched    = 256 // so many copies by the copy engines are queued at a time
)

// cudaEngine copies with the VM's GPUs, each for what is in its own memory.
type cudaEngine struct {
	device     *cuda.Device
	gpus       []*gpuJobs // one for each GPU; nil: it isn't open
	closed     []closed   // one for each GPU: why it couldn't be opened
	accounts   *ledger.Process
	ids        []uint64 // of the GPUs, in a ledger
	threshold  uint64
	registered uint64 // a power of two
	granule    uint8  // its logarithm
	parameters [16]byte
	batch      *copies.Batch
	failed     error  // why no GPU can copy any more
	suspect    bool   // one has failed: the others are asked
	inline     []*job // that didn't need the GPU
	warn       func(string, error)
}

// cudaStaging is a worker's device memory, mapped here.
type cudaStaging struct {
	address, bytes uint64
	on             *gpuJobs // of its GPU
}

func (s cudaStaging) size() uint64 { return s.bytes }

func newCUDAEngine(
	c *Config, p *handover.Policy, accounts *ledger.Process,
) (*cudaEngine, error) {
	d, err := cuda.NewDevice(cuda.Options{Library: c.Library, AllowPageable: p.AllowPageable,
		PCI: c.PCI, Log: c.Log})
	if err != nil {
		return nil, err
	}
	e := &cudaEngine{device: d, accounts: accounts, threshold: c.Threshold,
		batch: copies.NewBatch(batched)}
	e.setRegistered(c.Registered)
	e.warn = func(what string, err error) { c.Log.WithError(err).Warn(what) }
	if err := e.open(c); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// open initialises the driver. A VM's only GPU is opened at once: its first copy has begun this
// mover. Of several, each is opened at its first use, which may be under the sandbox.
func (e *cudaEngine) open(c *Config) error {
	s, r := e.device.Open(nil)
	if r != gpubackend.Success {
		return fmt.Errorf("open the GPU: %w", r.Err())
	}
	e.gpus, e.closed = make([]*gpuJobs, len(s.Device)), make([]closed, len(s.Device))
	places := make([]pcie.Address, len(s.Device))
	for i := range s.Device {
		e.ids = append(e.ids, ledger.ID(s.Device[i].Uuid))
		places[i] = hostgpus.Described(&s.Device[i]).Place
	}
	err := stayNear(c.PCI, places) // before contexts are made: their threads inherit this
	if err != nil {
		e.warn("stay near the GPU", err)
	}
	if len(e.gpus) == 1 {
		_, err = e.openGPU(0)
		return err
	}
	cudadriver.LoadCompilers() // now, since the sandbox lets no memory be made executable
	return nil
}

func (e *cudaEngine) attach(fd int, start, bytes uint64) (staging, error) {
	if start != 0 {
		return nil, fmt.Errorf("device memory from %#x on in its file: %w", start, errProtocol)
	}
	l, err := e.gpuOf(fd)
	if err != nil {
		return nil, err
	}
	if r := e.device.SetCurrent(l.context); r != gpubackend.Success {
		return nil, fmt.Errorf("take memory: %w", r.Err())
	}
	address, err := e.device.Import(fd, bytes)
	if err != nil {
		return nil, err
	}
	return cudaStaging{address, bytes, l}, nil
}

func (e *cudaEngine) detach(s staging) {
	m := s.(cudaStaging)
	e.device.SetCurrent(m.on.context) // on an error the next call says why
	if err := e.device.Unimport(m.address); err != nil {
		e.warn("return staging memory", err)
	}
}

// start queues a job's copies on a stream of its own, and an event after them.
func (e *cudaEngine) start(j *job) bool {
	l := j.staging.staging.(cudaStaging).on
	s := l.free()
	if s == nil {
		return false
	}
	r := l.failed
	if r == gpubackend.Success {
		r = e.device.SetCurrent(l.context)
	}
	if r == gpubackend.Success {
		r = e.queue(s, j)
	}
	j.status = statusOf(r)
	if l.failed != gpubackend.Success || e.noteFailure(l, r) {
		e.inline = append(e.inline, j)
		return true
	}
	// Even if a copy was refused, earlier ones may be under way.
	if r = e.device.EventRecordWithFlags(s.event, s.stream, 0); r != gpubackend.Success {
		if !e.noteFailure(l, r) {
			e.end(r) // nobody can tell when the copies have ended
		}
		j.status = statusOf(r)
		e.inline = append(e.inline, j)
		return true
	}
	s.job = j
	l.flying++
	return true
}

// queue queues every part of a job.
func (e *cudaEngine) queue(s *flight, j *job) gpubackend.Result {
	s.n = 0
	e.batch.Reset()
	if r := e.queueSpans(s, j); r != gpubackend.Success {
		return r
	}
	if r := e.device.CopyBatch(e.batch, s.stream); r != gpubackend.Success {
		return r
	}
	return e.launch(s)
}

// queueSpans gives spans to the copy engines, or puts them on the kernel's list.
func (e *cudaEngine) queueSpans(s *flight, j *job) gpubackend.Result {
	device := j.staging.staging.(cudaStaging).address + j.offset
	few := e.fewSmall(j)
	for i := range j.spans {
		p := &j.spans[i]
		n := p.bytes
		var r gpubackend.Result
		switch {
		case !e.reached(p) && !e.register(s.on, p):
			r = e.bounced(s, j, p, device)
		case n >= e.threshold || few:
			r = e.copyEngine(s, j, p, device)
		default:
			r = e.enlist(s, j, p, device)
		}
		if r != gpubackend.Success {
			return r
		}
		device += n
	}
	return gpubackend.Success
}

// fewSmall says whether a job has too few spans for the kernel to be worth a launch.
func (e *cudaEngine) fewSmall(j *job) bool {
	small := 0
	for i := 0; i < len(j.spans) && small <= fewRuns; i++ {
		if j.spans[i].bytes < e.threshold {
			small++
		}
	}
	return small <= fewRuns
}

// copyEngine copies a span, cut where it crosses from one registration to the next.
func (e *cudaEngine) copyEngine(s *flight, j *job, p *span, device uint64) gpubackend.Result {
	host, offset, left := p.address(), p.offset, p.bytes
	for left > 0 {
		n := min(left, e.registered-offset%e.registered)
		dst, src := device, host
		if !j.toDevice {
			dst, src = src, dst
		}
		if e.batch.Full() {
			if r := e.device.CopyBatch(e.batch, s.stream); r != gpubackend.Success {
				return r
			}
		}
		e.batch.Add(dst, src, n)
		device, host, offset, left = device+n, host+n, offset+n, left-n
	}
	return gpubackend.Success
}

// enlist puts a span on the kernel's list, cut evenly if there is room.
func (e *cudaEngine) enlist(s *flight, j *job, p *span, device uint64) gpubackend.Result {
	host, left := p.address(), p.bytes
	if left <= cut && s.n < listRuns {
		s.add(device, host, left, j.toDevice)
		return gpubackend.Success
	}
	most := max(1, listRuns/len(j.spans)-1)
	each := max(uint64(cut), (left/uint64(most)+16)&^15)
	for left > 0 {
		if s.n == listRuns {
			if r := e.launchAndWait(s); r != gpubackend.Success {
				return r
			}
		}
		n := min(left, each)
		s.add(device, host, n, j.toDevice)
		device, host, left = device+n, host+n, left-n
	}
	return gpubackend.Success
}

// add puts an entry on the list, which has room.
func (s *flight) add(device, host, n uint64, toDevice bool) {
	if !toDevice {
		device, host = host, device
	}
	b := s.list[s.n*listEntry : (s.n+1)*listEntry]
	binary.LittleEndian.PutUint64(b[0:], device)
	binary.LittleEndian.PutUint64(b[8:], host)
	binary.LittleEndian.PutUint64(b[16:], n)
	s.n++
}

// launch starts the kernel on the list.
func (e *cudaEngine) launch(s *flight) gpubackend.Result {
	if s.n == 0 {
		return gpubackend.Success
	}
	binary.LittleEndian.PutUint64(e.parameters[0:], s.listAt)
	binary.LittleEndian.PutUint64(e.parameters[8:], uint64(s.n))
	return e.device.Launch(&gpubackend.Launch{
		Function:   s.on.function,
		Grid:       [3]uint32{uint32(min((s.n+warps-1)/warps, blocks)), 1, 1},
		Block:      [3]uint32{threads, 1, 1},
		Stream:     s.stream,
		Parameters: e.parameters[:],
	})
}

// launchAndWait runs the kernel to make room on the list.
func (e *cudaEngine) launchAndWait(s *flight) gpubackend.Result {
	if r := e.launch(s); r != gpubackend.Success {
		return r
	}
	s.n = 0
	return e.wait(s)
}

func (e *cudaEngine) wait(s *flight) gpubackend.Result {
	for {
		if r := e.device.StreamQuery(s.stream); r != gpubackend.NotReady {
			return r
		}
	}
}

func (e *cudaEngine) poll(ended func(*job)) {
	for _, j := range e.inline {
		ended(j)
	}
	clear(e.inline)
	e.inline = e.inline[:0]
	for _, l := range e.gpus {
		if l == nil || l.flying == 0 {
			continue
		}
		if r := e.device.SetCurrent(l.context); r != gpubackend.Success &&
			!e.noteFailure(l, r) {
			e.end(r)
		}
		e.pollGPU(l, ended)
	}
	if e.suspect {
		e.askOthers()
	}
}

func (e *cudaEngine) busy() bool {
	for _, l := range e.gpus {
		if l != nil && l.flying > 0 {
			return true
		}
	}
	return len(e.inline) > 0
}

func (e *cudaEngine) spins() bool   { return true }
func (e *cudaEngine) broken() error { return e.failed }

func (e *cudaEngine) close() {
	e.device.Close()
	e.batch.Close()
}
