// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// gpuJobs has what jobs of a GPU need.
type gpuJobs struct {
	context  gpubackend.Context
	function gpubackend.Function
	flights  [cudaJobs]flight
	flying   int
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

// openGPU makes what a GPU needs to copy.
func (e *cudaEngine) openGPU(gpu int) (*gpuJobs, error) {
	if gpu < len(e.ids) {
		countContext(e.accounts, e.ids[gpu])
	}
	l := &gpuJobs{}
	var r gpubackend.Result
	if l.context, r = e.device.DevicePrimaryCtxRetain(uint64(gpu)); r == gpubackend.Success {
		r = e.device.SetCurrent(l.context)
	}
	if r != gpubackend.Success {
		return nil, fmt.Errorf("make a context: %w", r.Err())
	}
	module, _, _, r := e.device.ModuleLoadData(copyRuns, nil, nil, nil)
	if r == gpubackend.Success {
		l.function, r = e.device.ModuleGetFunction(module, "copy_runs")
	}
	if r != gpubackend.Success {
		return nil, fmt.Errorf("load the copying kernel: %w", r.Err())
	}
	for i := range l.flights {
		l.flights[i].on = l
		if err := e.openFlight(&l.flights[i]); err != nil {
			return nil, err
		}
	}
	e.gpus[gpu] = l
	return l, nil
}

// gpuOf is the gpuJobs of the GPU whose memory a file is. If that isn't known, or can't be opened,
// it is the first GPU's, which can copy if it reaches the other one's memory.
func (e *cudaEngine) gpuOf(fd int) *gpuJobs {
	if len(e.gpus) == 1 {
		return e.first
	}
	gpu, ok := e.device.Whose(fd)
	if !ok {
		return e.first
	}
	if e.gpus[gpu] == nil {
		if _, err := e.openGPU(gpu); err != nil {
			e.warn("copy by another GPU", err)
			e.gpus[gpu] = e.first
		}
	}
	return e.gpus[gpu]
}

// countContext counts the mover's own context. It isn't refused: a VM without a mover can't copy.
// What the mover imports the workers count.
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
		if e.noteFailure(r) || s.job.status == statusDone {
			s.job.status = statusOf(r)
		}
		j := s.job
		s.job = nil
		l.flying--
		ended(j)
	}
}
