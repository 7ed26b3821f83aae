// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/launches"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	Attributes(from []byte) []byte
	LaunchKernel(l *gpubackend.Launch, attributes []byte, offsets []uint32) gpubackend.Result
	FuncOffsets(f gpubackend.Function, packed []byte) []uint32
	Offsets(f gpubackend.Function, packed []byte) (offsets []uint32, ok bool)
	LaunchDevices(ls []gpubackend.Launch, offsets [][]uint32, flags uint32) gpubackend.Result
	Pack(ls []gpubackend.Launch) int
	Submit(n int) (done int, r gpubackend.Result)
	Touch(s gpubackend.Stream)
	SeriesCalls
}

// Launches queues kernels.
type Launches struct {
	calls     Calls
	contexts  *contexts.Contexts
	capturing func() bool
	replays   replays
}

// New returns launches. capturing says whether any stream captures; with replay set, sequences that
// come again are replayed as graphs.
func New(calls Calls, x *contexts.Contexts, capturing func() bool, replay bool) *Launches {
	return &Launches{
		calls: calls, contexts: x, capturing: capturing,
		replays: replays{
			calls: calls, never: !replay || !calls.CanMakeSeries(),
			cache: launches.Cache[*driver.Series]{Free: calls.FreeSeries},
		},
	}
}

// Launch queues a kernel in one call of C, without allocating.
func (x *Launches) Launch(l *gpubackend.Launch) gpubackend.Result {
	if len(l.Parameters) > cudaabi.MaxParameterBytes {
		return gpubackend.InvalidValue
	}
	if len(l.Attributes) == 0 {
		return x.contexts.Failed(x.calls.LaunchKernel(l, nil, nil))
	}
	if len(l.Attributes) > driver.MaxLaunchAttributes*cudaabi.LaunchAttributeSize {
		return gpubackend.InvalidValue
	}
	attributes := x.calls.Attributes(l.Attributes)
	if r := CheckAttributes(attributes); r != gpubackend.Success {
		return r
	}
	var offsets []uint32
	if x.capturing() && wantsPointers(attributes) {
		offsets = x.calls.FuncOffsets(l.Function, l.Parameters)
	}
	return x.contexts.Failed(x.calls.LaunchKernel(l, attributes, offsets))
}

// launchPlain queues kernels without attributes, as many as there is room for in one call of C,
// without allocating.
func (x *Launches) launchPlain(ls []gpubackend.Launch) (queued int, r gpubackend.Result) {
	for queued < len(ls) {
		n := x.calls.Pack(ls[queued:])
		if n == 0 {
			return queued, gpubackend.InvalidValue // not even this one fits: it is too large
		}
		x.calls.Touch(ls[queued].Stream) // of all of them
		done, r := x.calls.Submit(n)
		queued += done
		if r != gpubackend.Success {
			return queued, x.contexts.Failed(r)
		}
	}
	return queued, gpubackend.Success
}

// CheckAttributes says whether the driver may be given launch attributes.
func CheckAttributes(attributes []byte) gpubackend.Result {
	if len(attributes)%cudaabi.LaunchAttributeSize != 0 {
		return gpubackend.InvalidValue
	}
	for ; len(attributes) > 0; attributes = attributes[cudaabi.LaunchAttributeSize:] {
		if !allowed.LaunchAttribute.Has(uint64(cudaabi.LaunchAttribute(attributes).ID())) {
			return gpubackend.NotSupported
		}
	}
	return gpubackend.Success
}

// wantsPointers says whether a launch with these attributes must be given pointers if it is
// captured.
func wantsPointers(attributes []byte) bool {
	const size = cudaabi.LaunchAttributeSize
	for ; len(attributes) >= size; attributes = attributes[size:] {
		if cudaabi.LaunchAttribute(attributes).ID() == cudaabi.LaunchAttributeCooperative {
			return true
		}
	}
	return false
}
