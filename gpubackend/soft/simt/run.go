// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// Limits of a launch, those of compute capability 9.0.
const (
	MaxThreadsPerBlock = 1024
	MaxBlockXY         = 1024
	MaxBlockZ          = 64
	MaxGridX           = 1<<31 - 1
	MaxGridYZ          = 65535
	// MaxShared bounds a block's shared memory.
	MaxShared = 227 << 10
	// maxResident bounds the blocks of a cooperative launch.
	maxResident = 1 << 14
	// workspaceSize is the memory of a cooperative launch's own.
	workspaceSize = 256
)

// launchRun is a launch at work.
type launchRun struct {
	Launch
	prog   *decoded.Program
	fn     *decoded.Function
	sms    smRange
	shared sharedLayout
	params heldBytes
	// workspace is what the blocks of a cooperative launch synchronise by.
	workspace   heldBytes
	blocks      uint64
	runnerBytes uint64 // of the host's memory, that a runner begins with
	next        atomic.Uint64
	stop        atomic.Bool

	mu    sync.Mutex
	fault *KernelError
	// output orders the messages of printf and assert.
	output sync.Mutex
	total  Stats
}

// smRange is which multiprocessors a launch uses, and how many the device has.
type smRange struct{ all, first, used uint32 }

// sharedLayout is what lies where in a block's shared memory.
type sharedLayout struct {
	size       uint64 // with what is reserved
	reservedAt uint64 // in it
	own        uint64 // without
}

// heldBytes is memory that is used by its address, for as long as it is held here.
type heldBytes struct {
	slab []uint64
	base uintptr
}

func newHeldBytes(bytes uint64) heldBytes {
	slab, base := loadstore.NewBytes(bytes)
	return heldBytes{slab, base}
}

// runner executes blocks on one goroutine.
type runner struct {
	run   *launchRun
	cache loadstore.Cache
	// frames are the free frames of calls, by function; made are all, and used says how many aren't
	// free.
	frames [][]*frame
	made   []*frame
	used   int
	memory budget.Account // of the host's, for calls
}

// Run executes the launch and returns when all its blocks have ended. The error is a *KernelError,
// or wraps ctx's error when ctx ended first; blocks may then have stopped anywhere.
func (l *Launch) Run(ctx context.Context) error {
	r, err := l.prepare()
	if err != nil {
		return err
	}
	stopped := context.AfterFunc(ctx, func() { r.stop.Store(true) })
	defer stopped()
	runners := r.admit()
	if runners == 0 {
		return &KernelError{Code: cudaabi.ErrorOutOfMemory, Starved: true,
			Detail: fmt.Sprintf("too little host memory is left for kernel %s", l.Kernel.Name)}
	}
	var wg sync.WaitGroup
	for range runners {
		wg.Go(r.work)
	}
	wg.Wait()
	runtime.KeepAlive(r.Params)
	if l.Stats != nil {
		*l.Stats = r.total
	}
	if r.fault != nil {
		return r.fault
	}
	if err := ctx.Err(); err != nil && r.stop.Load() {
		return fmt.Errorf("run kernel %s: %w", l.Kernel.Name, err)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &KernelError{Code: cudaabi.ErrorInvalidValue, Detail: fmt.Sprintf(format, args...)}
}

// prepare checks the launch and fills in what it leaves out.
func (l *Launch) prepare() (*launchRun, error) {
	r := &launchRun{Launch: *l}
	if l.Kernel == nil || !l.Kernel.Program.Linked() {
		return nil, invalid("launch without a linked kernel")
	}
	k := l.Kernel
	r.prog, r.fn = k.Program, k.Function
	if err := l.checkDims(); err != nil {
		return nil, err
	}
	if len(l.Params) < k.ParamSize {
		return nil, invalid("%d bytes of parameters for kernel %s, %d needed", len(l.Params),
			k.Name, k.ParamSize)
	}
	r.Params = append(make([]byte, 0, k.ParamSize+8), l.Params[:k.ParamSize]...)
	if k.ParamSize > 0 {
		// Parameters are read in their natural alignment.
		r.params = newHeldBytes(uint64(k.ParamSize))
		loadstore.CopyBytes(r.params.base, loadstore.BytesOf(r.Params), uint64(k.ParamSize))
	}
	if r.shared = layOutShared(k, uint64(l.SharedBytes)); r.shared.own > MaxShared {
		return nil, invalid("%d bytes of shared memory, at most %d", r.shared.own, MaxShared)
	}
	r.blocks = l.Grid.Count()
	if l.Cooperative {
		r.workspace = newHeldBytes(workspaceSize)
	}
	r.setWorkers()
	if r.StackBytes == 0 {
		r.StackBytes = DefaultStack
	}
	if r.fn.LocalSize > r.StackBytes {
		return nil, &KernelError{Code: cudaabi.ErrorLaunchOutOfResources,
			Detail: fmt.Sprintf("%d bytes of local memory, at most %d", r.fn.LocalSize,
				r.StackBytes)}
	}
	return r, nil
}

// layOutShared places so much dynamic shared memory, and what is reserved behind it.
func layOutShared(k *decoded.Kernel, dynamic uint64) sharedLayout {
	own := k.StaticShared
	if dynamic > 0 {
		own = k.DynamicAt + dynamic
	}
	if k.Reserved == 0 {
		return sharedLayout{size: own, own: own}
	}
	at := (own + decoded.ReservedAlign - 1) &^ (decoded.ReservedAlign - 1)
	return sharedLayout{size: at + k.Reserved, reservedAt: at, own: own}
}

func (r *launchRun) setWorkers() {
	if r.Workers <= 0 {
		r.Workers = runtime.GOMAXPROCS(0)
	}
	all := r.SMs
	if all == 0 {
		all = uint32(r.Workers)
	}
	r.sms = smRange{all: all, used: all}
	if r.PartSMs != 0 {
		r.sms.first, r.sms.used = r.FirstSM, r.PartSMs
		r.Workers = min(r.Workers, int(r.PartSMs))
	}
	if r.Cooperative || uint64(r.Workers) > r.blocks {
		r.Workers = int(r.blocks)
	}
}

func (l *Launch) checkDims() error {
	g, b := l.Grid, l.Block
	if g.Count() == 0 || b.Count() == 0 || g.X > MaxGridX || g.Y > MaxGridYZ || g.Z > MaxGridYZ {
		return invalid("grid %v of blocks %v: a size is 0 or too large", g, b)
	}
	if b.X > MaxBlockXY || b.Y > MaxBlockXY || b.Z > MaxBlockZ || b.Count() > MaxThreadsPerBlock {
		return invalid("block %v is too large", b)
	}
	limit := l.Kernel.MaxThreads
	if n := uint64(limit[0]) * uint64(limit[1]) * uint64(limit[2]); n != 0 && b.Count() > n {
		return invalid("block of %d threads for kernel %s, which allows %d", b.Count(),
			l.Kernel.Name, n)
	}
	if want := l.Kernel.ReqThreads; want[0] != 0 &&
		b != (Dim{uint32(want[0]), uint32(want[1]), uint32(want[2])}) {
		return invalid("block %v for kernel %s, which requires %v", b, l.Kernel.Name, want)
	}
	if l.Cooperative && g.Count() > maxResident {
		return &KernelError{Code: cudaabi.ErrorCooperativeLaunchTooLarge,
			Detail: fmt.Sprintf("cooperative launch of %d blocks, at most %d", g.Count(),
				maxResident)}
	}
	return nil
}

// work executes blocks until none is left.
func (r *launchRun) work() {
	k := &runner{run: r, frames: make([][]*frame, len(r.prog.Decoded))}
	k.memory.Begin(r.HostMemory)
	defer k.leave()
	// Memory that is unmapped while a kernel uses it faults that kernel only.
	debug.SetPanicOnFault(true)
	defer func() {
		if p := recover(); p != nil {
			err, ok := p.(interface{ Addr() uintptr })
			if !ok {
				panic(p)
			}
			r.fail(&KernelError{Code: cudaabi.ErrorIllegalAddress,
				Detail: fmt.Sprintf("memory at %#x vanished", err.Addr())})
		}
	}()
	k.cache.Memory = r.Memory
	k.cache.Own = loadstore.Range{Base: uint64(r.workspace.base),
		Size: workspaceSize * scalar.Bit(r.Cooperative), Writable: true}
	b := k.newBlock()
	for !r.stop.Load() {
		n := r.next.Add(1) - 1
		if n >= r.blocks {
			break
		}
		x, y := uint64(r.Grid.X), uint64(r.Grid.Y)
		b.start(Dim{uint32(n % x), uint32(n / x % y), uint32(n / x / y)}, n)
		if fault := b.execute(); fault != nil {
			r.fail(fault)
		}
	}
	r.addStats(b)
}

func (r *launchRun) addStats(b *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range b.warps {
		r.total.Instructions += w.issued
		r.total.ThreadInstructions += w.threadInsts
	}
}

// fail records the first fault and stops all blocks.
func (r *launchRun) fail(f *KernelError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		r.fault = f
	}
	r.stop.Store(true)
}

// write hands one message to an output of the launch.
func (r *launchRun) write(out io.Writer, message []byte) {
	if out == nil || len(message) == 0 {
		return
	}
	r.output.Lock()
	defer r.output.Unlock()
	// A program can't be told that its output is lost.
	_, _ = out.Write(message)
}

// addressOfVar is the address of a variable in its own space.
func (r *launchRun) addressOfVar(v *ptx.Variable) uint64 {
	if v.Space == ptx.Shared {
		return r.Kernel.SharedVars[v]
	}
	return r.prog.Addresses[v]
}

// rest lets other goroutines run, whose blocks this one may wait for.
func (k *runner) rest() { runtime.Gosched() }
