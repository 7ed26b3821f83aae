// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// engine copies between guest memory and staging memory. The loop alone calls it.
type engine interface {
	// attach maps a worker's memory: bytes of a file from start on. fd stays the caller's. The
	// error may have what the GPU's driver answers (gpubackend.ResultIn).
	attach(fd int, start, bytes uint64) (staging, error)
	// detach unmaps it; no job uses it.
	detach(s staging)
	// start takes a job, or returns false if it has no room for another one.
	start(j *job) bool
	// poll calls ended for the jobs that have ended.
	poll(ended func(j *job))
	// busy says whether jobs are under way.
	busy() bool
	// spins says whether only poll finds the end of a job; otherwise the wake descriptor becomes
	// readable.
	spins() bool
	// forget lets go of a region of guest memory; no job uses it.
	forget(r *region)
	// broken is why no job can succeed any more, or nil.
	broken() error
	close()
}

// staging is an engine's view of memory that a worker has lent: staging memory proper, or the
// device memory to or from which a copy goes.
type staging interface{ size() uint64 }

// lent is what a connection knows about it.
type lent struct {
	staging
	jobs int  // under way
	gone bool // asked back: detached and answered with its last job
}

// job is a request that is under way.
type job struct {
	conn     *conn
	sequence uint64
	staging  *lent
	offset   uint64
	toDevice bool
	bytes    uint64
	spans    []span
	use      vouchedUse // of pages for which the driver vouches
	status   status
}

// span is a part of a job that is contiguous in one region.
type span struct {
	region        *region
	offset, bytes uint64 // in the region
}

// host is the span's mapping here.
func (p *span) host() []byte { return p.region.host[p.offset : p.offset+p.bytes] }

// address is its address for the GPU.
func (p *span) address() uint64 { return hostAddress(p.region.host) + p.offset }

// newEngine makes the engine for a kind of GPU. It notifies wake if it doesn't spin; what it takes
// of the GPU counts in accounts.
func newEngine(
	c *Config, gpu string, p *handover.Policy, accounts *ledger.Process, wake int,
) (engine, error) {
	switch gpu {
	case "soft":
		return newSoftEngine(c.Threads, wake), nil
	case "cuda":
		return newCUDAEngine(c, p, accounts)
	}
	return nil, fmt.Errorf("no GPU of kind %q", gpu)
}

// region is a range of guest memory with its mapping, which stays as long as the device process
// names the same range of the same file.
type region struct {
	key      regionKey
	memory   *guestmem.Memory
	host     []byte
	fd       int
	granules []granuleState // what is registered with CUDA
	warned   bool           // that a granule couldn't be registered
}

// granuleState says whether a granule of a region is registered.
type granuleState uint8

const (
	granuleUnknown granuleState = iota
	granuleRefused
	granulePinned // by GPU 0; from here on, by the GPU of that number
)

// regionKey tells regions apart.
type regionKey struct {
	guest, size, offset uint64
	device, inode       uint64
}
