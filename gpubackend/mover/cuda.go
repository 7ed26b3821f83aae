// SPDX-License-Identifier: Apache-2.0

package mover

import (
	_ "embed" // for the kernel
	"encoding/binary"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

//go:embed copy_runs.ptx
var copyRuns []byte

const (
	cudaJobs = 16 // on their way at a time, a stream and a list each
	// listRuns is how many runs a list holds: those of the largest request, with some cut in
	// spans.
	listRuns   = 4 * maxRuns
	listEntry  = 32
	blocks     = 128
	threads    = 256
	warps      = threads / 32 // in a block; each takes an entry at a time
	fewRuns    = 2            // are left to the copy engines whatever their length
	cut        = 16 << 10     // a run for the kernel is cut to this, so that warps have even work
	bounceSize = 1 << 20
	batched    = 256 // copies by the copy engines are queued so many at a time
)

// cudaEngine copies with the GPU.
type cudaEngine struct {
	device     *cuda.Device
	function   gpubackend.Function
	flights    [cudaJobs]flight
	flying     int
	threshold  uint64
	registered uint64 // a power of two
	granule    uint8  // its logarithm
	bounce     []byte
	bounceAt   uint64
	parameters [16]byte
	batch      *copies.Batch
	failed     error
	inline     []*job // that needed nothing of the GPU
	warn       func(string, error)
}

// flight is what a job on its way has.
type flight struct {
	job    *job
	stream gpubackend.Stream
	event  gpubackend.Event
	list   []byte
	listAt uint64
	n      int // entries of the list
}

// cudaStaging is a worker's device memory, mapped here.
type cudaStaging struct{ address, bytes uint64 }

func (s cudaStaging) size() uint64 { return s.bytes }

func newCUDAEngine(
	c *Config, p *handover.Policy, accounts *ledger.Process,
) (*cudaEngine, error) {
	d, err := cuda.NewDevice(cuda.Options{Library: c.Library, AllowPageable: p.AllowPageable,
		Log: c.Log})
	if err != nil {
		return nil, err
	}
	e := &cudaEngine{device: d, threshold: c.Threshold, batch: copies.NewBatch(batched)}
	e.setRegistered(c.Registered)
	e.warn = func(what string, err error) { c.Log.WithError(err).Warn(what) }
	if err := e.open(c.Device, accounts); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *cudaEngine) open(device int, accounts *ledger.Process) error {
	s, r := e.device.Open(nil)
	if r != gpubackend.Success {
		return fmt.Errorf("open the GPU: %w", r.Err())
	}
	if device < len(s.Device) {
		countContext(accounts, ledger.ID(s.Device[device].Uuid))
	}
	ctx, r := e.device.DevicePrimaryCtxRetain(uint64(device))
	if r == gpubackend.Success {
		r = e.device.SetCurrent(ctx)
	}
	if r != gpubackend.Success {
		return fmt.Errorf("make a context: %w", r.Err())
	}
	module, _, _, r := e.device.ModuleLoadData(copyRuns, nil, nil, nil)
	if r == gpubackend.Success {
		e.function, r = e.device.ModuleGetFunction(module, "copy_runs")
	}
	if r != gpubackend.Success {
		return fmt.Errorf("load the copying kernel: %w", r.Err())
	}
	for i := range e.flights {
		if err := e.openFlight(&e.flights[i]); err != nil {
			return err
		}
	}
	var err error
	e.bounce, e.bounceAt, err = e.device.HostMemory(bounceSize)
	return err
}

// countContext counts the mover's own context. It isn't refused: a VM without a mover can't copy.
// What the mover imports is the workers', who count it.
func countContext(accounts *ledger.Process, gpu uint64) {
	a := accounts.Account(gpu)
	a.Force(ledger.Contexts, a.Context(cuda.ContextBytes))
}

func (e *cudaEngine) openFlight(s *flight) (err error) {
	var r gpubackend.Result
	if s.stream, r = e.device.StreamCreateWithPriority(cudaabi.StreamNonBlocking,
		0); r != gpubackend.Success {
		return fmt.Errorf("make a stream: %w", r.Err())
	}
	if s.event, r = e.device.EventCreate(cudaabi.EventDisableTiming); r != gpubackend.Success {
		return fmt.Errorf("make an event: %w", r.Err())
	}
	s.list, s.listAt, err = e.device.HostMemory(listRuns * listEntry)
	return err
}

func (e *cudaEngine) attach(fd int, start, bytes uint64) (staging, error) {
	if start != 0 {
		return nil, fmt.Errorf("device memory from %#x on in its file: %w", start, errProtocol)
	}
	address, err := e.device.Import(fd, bytes)
	if err != nil {
		return nil, err
	}
	return cudaStaging{address, bytes}, nil
}

func (e *cudaEngine) detach(s staging) {
	if err := e.device.Unimport(s.(cudaStaging).address); err != nil {
		e.warn("return staging memory", err)
	}
}

// start queues a job's copies on a stream of its own, and an event after them.
func (e *cudaEngine) start(j *job) bool {
	s := e.free()
	if s == nil {
		return false
	}
	r := e.queue(s, j)
	j.status = statusOf(r)
	if e.noteFailure(r) || e.failed != nil {
		e.inline = append(e.inline, j)
		return true
	}
	// Even when a copy was refused, earlier ones may be under way.
	if r = e.device.EventRecordWithFlags(s.event, s.stream, 0); r != gpubackend.Success {
		e.fail(r)
		j.status = statusOf(r)
		e.inline = append(e.inline, j)
		return true
	}
	s.job = j
	e.flying++
	return true
}

func (e *cudaEngine) free() *flight {
	for i := range e.flights {
		if e.flights[i].job == nil {
			return &e.flights[i]
		}
	}
	return nil
}

// queue sends every part of a job its way.
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
		case !e.reached(p) && !e.register(p):
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

// fewSmall says whether a job has so few spans for the kernel that it isn't worth a launch.
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

// enlist puts a span on the kernel's list, cut evenly as far as there is room.
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
		Function:   e.function,
		Grid:       [3]uint32{uint32(min((s.n+warps-1)/warps, blocks)), 1, 1},
		Block:      [3]uint32{threads, 1, 1},
		Stream:     s.stream,
		Parameters: e.parameters[:],
	})
}

// launchAndWait makes room on the list.
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
	if e.flying == 0 {
		return
	}
	for i := range e.flights {
		s := &e.flights[i]
		if s.job == nil {
			continue
		}
		r := e.device.EventQuery(s.event)
		if r == gpubackend.NotReady {
			continue
		}
		if e.noteFailure(r) || s.job.status == statusDone {
			s.job.status = statusOf(r)
		}
		j := s.job
		s.job = nil
		e.flying--
		ended(j)
	}
}

// noteFailure ends the engine on an error after which nothing works.
func (e *cudaEngine) noteFailure(r gpubackend.Result) bool {
	if r.Sticky() {
		e.fail(r)
	}
	return r.Sticky()
}

func (e *cudaEngine) fail(r gpubackend.Result) {
	if e.failed == nil {
		e.failed = fmt.Errorf("the mover's context: %w", r.Err())
	}
}

func (e *cudaEngine) busy() bool    { return e.flying+len(e.inline) > 0 }
func (e *cudaEngine) spins() bool   { return true }
func (e *cudaEngine) broken() error { return e.failed }

func (e *cudaEngine) close() {
	e.device.Close()
	e.batch.Close()
}
