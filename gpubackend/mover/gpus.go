// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// gpuJobs has what jobs of a GPU need.
type gpuJobs struct {
	number   int
	context  gpubackend.Context
	function gpubackend.Function
	flights  [cudaJobs]flight
	flying   int
	bounce   []byte // pinned memory for what can't be registered
	bounceAt uint64
	failed   gpubackend.Result // the error after which it copies nothing any more
}

// flight has what a job under way needs.
type flight struct {
	on     *gpuJobs
	job    *job
	stream gpubackend.Stream
	event  gpubackend.Event
	list   []byte
	listAt uint64
	n      int // entries of the list
}

// closed is why a GPU couldn't be opened. Another try takes as long, and holds up all copies: until
// a time there is none.
type closed struct {
	why   error
	until time.Time
}

// reopen is how long a GPU that couldn't be opened isn't tried again.
const reopen = time.Second

// gpuOf is the gpuJobs of the GPU whose memory a file is. If that isn't known, or the GPU has no
// room for a context, it is that of another one, which can copy if it reaches the memory.
func (e *cudaEngine) gpuOf(fd int) (*gpuJobs, error) {
	gpu := 0
	if len(e.gpus) > 1 {
		var ok bool
		if gpu, ok = e.device.Whose(fd); !ok {
			return e.anyGPU()
		}
	}
	l, err := e.opened(gpu)
	if err != nil && e.gpus[gpu] == nil && !gpubackend.ResultIn(err).OfGPU() {
		if other := e.working(); other != nil {
			return other, nil
		}
	}
	return l, err
}

// anyGPU is one that is open, or else can be opened.
func (e *cudaEngine) anyGPU() (l *gpuJobs, err error) {
	if l = e.working(); l != nil {
		return l, nil
	}
	for gpu := range e.gpus {
		if l, err = e.opened(gpu); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// working is a GPU that is open and hasn't failed, or nil.
func (e *cudaEngine) working() *gpuJobs {
	for _, l := range e.gpus {
		if l != nil && l.failed == gpubackend.Success {
			return l
		}
	}
	return nil
}

// opened is a GPU, which is opened if it isn't open.
func (e *cudaEngine) opened(gpu int) (*gpuJobs, error) {
	l, c := e.gpus[gpu], &e.closed[gpu]
	switch {
	case l != nil && l.failed != gpubackend.Success:
		return nil, fmt.Errorf("GPU %d has failed: %w", gpu, l.failed.Err())
	case l != nil:
		return l, nil
	case c.why != nil && time.Now().Before(c.until):
		return nil, c.why
	}
	l, err := e.openGPU(gpu)
	*c = closed{err, time.Now().Add(reopen)}
	return l, err
}

// openGPU makes what a GPU needs to copy. Its context counts, and isn't refused: a VM without a
// mover can't copy. What the mover imports the workers count.
func (e *cudaEngine) openGPU(gpu int) (*gpuJobs, error) {
	account := e.accounts.Account(e.ids[gpu])
	counts := account.Context(cuda.ContextBytes)
	account.Force(ledger.Contexts, counts)
	l := &gpuJobs{number: gpu}
	if err := e.furnish(l); err != nil {
		e.giveUp(l)
		account.Give(ledger.Contexts, counts)
		return nil, fmt.Errorf("open GPU %d: %w", gpu, err)
	}
	e.gpus[gpu] = l
	return l, nil
}

func (e *cudaEngine) furnish(l *gpuJobs) (err error) {
	var r gpubackend.Result
	if l.context, r = e.device.DevicePrimaryCtxRetain(uint64(l.number)); r == gpubackend.Success {
		r = e.device.SetCurrent(l.context)
	}
	if r != gpubackend.Success {
		return fmt.Errorf("make a context: %w", r.Err())
	}
	module, _, _, r := e.device.ModuleLoadData(copyRuns, nil, nil, nil)
	if r == gpubackend.Success {
		l.function, r = e.device.ModuleGetFunction(module, "copy_runs")
	}
	if r != gpubackend.Success {
		return fmt.Errorf("load the copying kernel: %w", r.Err())
	}
	for i := range l.flights {
		l.flights[i].on = l
		if err := e.openFlight(&l.flights[i]); err != nil {
			return err
		}
	}
	l.bounce, l.bounceAt, err = e.device.HostMemory(bounceSize)
	return err
}

// giveUp undoes what furnish did before it failed. Streams, events and code end with the context.
func (e *cudaEngine) giveUp(l *gpuJobs) {
	if l.context == 0 {
		return
	}
	for i := range l.flights {
		if at := l.flights[i].listAt; at != 0 {
			if err := e.device.FreeHostMemory(at); err != nil {
				e.warn("give up a GPU that couldn't be opened", err)
			}
		}
	}
	e.device.SetCurrent(0) // on an error the next call says why
	if r := e.device.DevicePrimaryCtxRelease(uint64(l.number)); r != gpubackend.Success {
		e.warn("give up a GPU that couldn't be opened", r.Err())
	}
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

func (l *gpuJobs) free() *flight {
	for i := range l.flights {
		if l.flights[i].job == nil {
			return &l.flights[i]
		}
	}
	return nil
}

func (e *cudaEngine) pollGPU(l *gpuJobs, ended func(*job)) {
	for i := range l.flights {
		s := &l.flights[i]
		if s.job == nil {
			continue
		}
		r := e.device.EventQuery(s.event)
		if r == gpubackend.NotReady {
			continue
		}
		if e.noteFailure(l, r) || s.job.status == statusDone {
			s.job.status = statusOf(r)
		}
		j := s.job
		s.job = nil
		l.flying--
		ended(j)
	}
}
