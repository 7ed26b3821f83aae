// SPDX-License-Identifier: Apache-2.0

// Package simt executes PTX kernels on the CPU: it is the engine of the software GPU.
//
// # Use
//
//	module, err := ptx.Parse(text, memory)
//	program, err := decoded.Load(module, memory) // all unknown instructions are refused here
//	err = program.Link(addressOf)            // after the globals have got device memory
//	kernel := program.Kernel("vectorAdd")
//	err = (&simt.Launch{Kernel: kernel, Grid: ..., Block: ..., Params: ..., Memory: mem}).Run(ctx)
//
// A Program belongs to one load of a module: the caller gives each of Program.Globals a place in
// device memory, fills it with Program.Fill, and tells Link the addresses. Copies to a symbol then
// need nothing of the engine.
//
// # Model
//
// Package decoded has made a kernel into instructions of a compact form. A warp of 32 lanes
// executes an instruction for all its active lanes before the next; registers are arrays over
// lanes. Lanes that take different ways at a branch become splits of the warp, each with its own
// program counter. The split that is furthest behind runs first, and splits that meet at an
// instruction become one again. A split that goes round a loop for long while others wait is set
// aside for a while, so that lanes may wait for each other. Blocks run in parallel on as many
// goroutines as there are processors; the warps of a block take turns on one goroutine.
//
// # Memory
//
// Device addresses of global and constant memory are addresses of this process, checked against
// Memory before each access. Shared, local and parameter memory have windows in the generic address
// space above all user addresses of the CPU (SharedWindow and up), so that they collide with no
// mapping. The memory that Lookup reports must stay mapped until Run returns.
//
// # Trust
//
// Kernels come from a guest. They reach only what Memory reports and their own windows; everything
// else is a KernelError. They are stopped through the context given to Run, which is polled at
// backward branches.
//
// # Files
//
//	a launch      launch.go run.go block.go warp.go loop.go (rounds of a warp)
//	              hostmemory.go (what it takes of the host's)
//	registers     special.go (package lanes has them, and what computes on them)
//	operations    exec.go (which function executes which) call.go warpop.go (among lanes)
//	memory        package loadstore
//	textures      texture.go texture_exec.go (package sampler reads them)
//	built in      builtin.go (package kernelheap is their malloc, printf formats)
//
// # Concurrency
//
// A Program is immutable after Link, and any number of launches may run at the same time.
package simt
