// SPDX-License-Identifier: Apache-2.0

// Package contextstest has contexts for tests of rooms: two GPUs whose driver does what it is told,
// and a primary context of the first one that is current.
package contextstest

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
)

// The handles of what New makes.
const (
	Native  = 10                      // of the first GPU; the second has the next
	Primary = gpubackend.Context(110) // its primary context
)

// calls is a driver without errors.
type calls struct{ last gpubackend.Context }

func (c *calls) DevicePrimaryCtxRetain(device uint64) (gpubackend.Context, gpubackend.Result) {
	return gpubackend.Context(100 + device), gpubackend.Success
}
func (c *calls) DevicePrimaryCtxRelease(uint64) gpubackend.Result { return gpubackend.Success }
func (c *calls) DevicePrimaryCtxReset(uint64) gpubackend.Result   { return gpubackend.Success }
func (c *calls) CtxCreate(_, _ uint64) (gpubackend.Context, gpubackend.Result) {
	c.last++
	return 200 + c.last, gpubackend.Success
}
func (c *calls) CtxDestroy(gpubackend.Context) gpubackend.Result    { return gpubackend.Success }
func (c *calls) CtxSetCurrent(gpubackend.Context) gpubackend.Result { return gpubackend.Success }
func (c *calls) CtxPopCurrent() gpubackend.Result                   { return gpubackend.Success }
func (c *calls) CtxSynchronize() gpubackend.Result                  { return gpubackend.Success }
func (c *calls) CtxEnablePeerAccess(gpubackend.Context, uint64) gpubackend.Result {
	return gpubackend.Success
}
func (c *calls) CtxDisablePeerAccess(gpubackend.Context) gpubackend.Result {
	return gpubackend.Success
}
func (c *calls) ReportTo(driver.Work) {}

// New returns contexts, and their GPUs. ended is told of contexts that end; it may be nil.
func New(ended func(*contexts.Context)) (*contexts.Contexts, *gpus.List) {
	list := &gpus.List{}
	list.Set([]gpus.GPU{
		{Native: Native, Total: 1 << 30, Threads: 1 << 11, ReadOnlyRegister: true},
		{Native: Native + 1, Total: 1 << 30, Threads: 1 << 11},
	})
	x := contexts.New(&calls{}, list)
	x.SetHooks(contexts.Hooks{
		Ending: func() {}, Room: func(int) bool { return true },
		Take: func(int) (uint64, bool) { return 0, true }, Give: func(int, uint64) {},
		Began: func(*contexts.Context) {},
		Ready: func(*contexts.Context) {}, Current: func() {},
		Holds: func(*contexts.Context) bool { return false },
		Ended: func(c *contexts.Context) {
			if ended != nil {
				ended(c)
			}
		},
	})
	h, _ := x.DevicePrimaryCtxRetain(0)
	x.SetCurrent(h)
	return x, list
}
