// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"context"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/peers"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// Context is a CUcontext. The primary one keeps its handle when it is reset.
type Context struct {
	*scheduler.Domain
	// GPU is the number of the context's GPU.
	GPU    int
	handle uint64
	active bool // primary: retained
	counts bool // as memory
	users  int  // primary: retained so often
	flags  uint64

	limits      [limitCount]uint64
	heapFixed   bool // kernels have a heap: its size can't be changed any more
	cacheConfig uint64
}

// Handle is the context's number.
func (c *Context) Handle() gpubackend.Context { return gpubackend.Context(c.handle) }

// State returns Success or why a context is not usable.
func (c *Context) State() gpubackend.Result {
	if !c.active {
		return gpubackend.ContextIsDestroyed
	}
	return c.Failure()
}

// Active says whether the context has users: a primary one that nobody retains has none.
func (c *Context) Active() bool { return c.active }

// Green is a CUgreenCtx, and the CUcontext of it: the primary context with a default stream and
// multiprocessors of its own, Count of them from First on.
type Green struct {
	Context      *Context
	First, Count uint32
}

// Owner is the context with which it ends.
func (g *Green) Owner() *Context { return g.Context }

// Owned is an object that ends with its context. Its handle is taken away here; its room gives back
// the rest.
type Owned interface{ Owner() *Context }

// Hooks tell the other rooms what happens to contexts. All are called on the device's goroutine.
type Hooks struct {
	// Take counts a context of a GPU that is about to begin, if there is room for it; Give undoes
	// that. Both may be nil.
	Take func(gpu int) bool
	Give func(gpu int)
	// Usable is called when a context has become usable. It is the current one meanwhile.
	Usable func(*Context)
	// Ending is called before the work of a context is waited for.
	Ending func(*Context)
	// Ended is called when nothing of a context runs any more. What it had may be given back.
	Ended func(*Context)
	// Connect gives kernels of one GPU access to the memory of another, or takes it back. It
	// counts: access ends when it was taken back as often as it was given.
	Connect func(from, of int, reaches bool)
	// Busy says whether streams of a green context have work.
	Busy func(*Green) bool
}

// Options are what a device's contexts are given.
type Options struct {
	Handles   *handles.Table
	Scheduler *scheduler.Scheduler
	Output    *output.Buffer
	// Memory is the size of a GPU's memory: no heap and no buffer is larger.
	Memory uint64
	// Apart says that no GPU reaches the memory of another.
	Apart bool
	Hooks Hooks
}

// Contexts are those of a device, the current one among them.
type Contexts struct {
	options Options
	open    bool
	alive   context.Context // ends with the device
	kill    context.CancelFunc

	all     []*Context
	primary []*Context // of each GPU
	lost    int        // a GPU that is off the bus; -1: none
	current *Context
	green   *Green                    // current part of current; nil for all of it
	peers   *peers.Contexts[*Context] // which reach the memory of others
}

// New returns the contexts of a device that is not open, which has none.
func New(o Options) *Contexts {
	x := &Contexts{options: o, lost: -1}
	x.peers = peers.NewContexts(func(from, of *Context, reaches bool) gpubackend.Result {
		o.Hooks.Connect(from.GPU, of.GPU, reaches)
		return gpubackend.Success
	})
	x.alive, x.kill = context.WithCancel(context.Background())
	return x
}

// Start makes the primary contexts of so many GPUs.
func (x *Contexts) Start(gpus int) {
	x.open = true
	for gpu := range gpus {
		x.primary = append(x.primary, x.newContext(gpu))
	}
}

// Ended says whether the device was closed, opened or not.
func (x *Contexts) Ended() bool { return x.alive.Err() != nil }

// Stop has all work end. The contexts stay until Clear.
func (x *Contexts) Stop() {
	x.kill()
	for _, c := range x.all {
		c.Fail(gpubackend.ContextIsDestroyed)
	}
}

// Clear forgets all contexts. With closed, nothing is usable any more.
func (x *Contexts) Clear(closed bool) {
	x.open = x.open && !closed
	x.current, x.green, x.all = nil, nil, nil
	x.peers.Clear()
}

// newContext makes a context in its initial state.
func (x *Contexts) newContext(gpu int) *Context {
	c := &Context{
		GPU: gpu, Domain: x.options.Scheduler.NewDomain(x.alive), limits: defaultLimits,
	}
	c.handle = x.options.Handles.Add(c)
	x.all = append(x.all, c)
	return c
}

// All are the contexts that there are.
func (x *Contexts) All() []*Context { return x.all }

// Primary is the primary context of a GPU, whether it is retained or not.
func (x *Contexts) Primary(gpu int) *Context { return x.primary[gpu] }

// CurrentGPU is the GPU of the current context, usable or not; the first where there is none.
func (x *Contexts) CurrentGPU() int {
	if x.current == nil {
		return 0
	}
	return x.current.GPU
}

// usable tells the rooms that a context has become usable. It is current meanwhile, so that what
// they allocate for it is on its GPU.
func (x *Contexts) usable(c *Context) {
	current, green := x.current, x.green
	x.current, x.green = c, nil
	x.options.Hooks.Usable(c)
	x.current, x.green = current, green
}

// Current returns the current context if it is usable.
func (x *Contexts) Current() (*Context, gpubackend.Result) {
	if !x.open {
		return nil, gpubackend.NotInitialized
	}
	if x.current == nil {
		return nil, gpubackend.InvalidContext
	}
	return x.current, x.current.State()
}

// CurrentGreen is the current green context, or nil.
func (x *Contexts) CurrentGreen() *Green { return x.green }

// Find returns the context of a handle. For a green context's handle it returns that, and the
// context that it is a part of.
func (x *Contexts) Find(h uint64) (*Context, *Green, gpubackend.Result) {
	if g, ok := handles.Find[*Green](x.options.Handles, h); ok {
		return g.Context, g, gpubackend.Success
	}
	if c, ok := handles.Find[*Context](x.options.Handles, h); ok {
		return c, nil, gpubackend.Success
	}
	return nil, nil, gpubackend.InvalidContext
}

// AddGreen enters a green context.
func (x *Contexts) AddGreen(g *Green) uint64 { return x.options.Handles.Add(g) }

// DropGreen forgets a green context.
func (x *Contexts) DropGreen(h uint64, g *Green) {
	x.options.Handles.Remove(h)
	if x.green == g {
		x.green = nil
	}
}

// CheckDevice checks a device number.
func (x *Contexts) CheckDevice(dev uint64) gpubackend.Result {
	if !x.open {
		return gpubackend.NotInitialized
	}
	if dev >= uint64(len(x.primary)) {
		return gpubackend.InvalidDevice
	}
	return gpubackend.Success
}

// checkWorking is CheckDevice for what needs one that isn't lost.
func (x *Contexts) checkWorking(dev uint64) gpubackend.Result {
	if result := x.CheckDevice(dev); result != gpubackend.Success || int(dev) != x.lost {
		return result
	}
	return gpubackend.Unknown
}

// Lose lets a GPU fall off the bus, as programs see it: its contexts fail, and it gets no new ones.
// With -1 the lost GPU works again, for new contexts. Lose is for tests.
func (x *Contexts) Lose(gpu int) {
	x.lost = gpu
	for _, c := range x.all {
		if c.GPU == gpu {
			c.Fail(gpubackend.Unknown)
		}
	}
}
