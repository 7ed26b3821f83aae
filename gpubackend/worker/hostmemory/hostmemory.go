// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Driver is what HostMemory uses of gpubackend.Driver.
type Driver interface {
	HostRegister(addr, bytes uint64, writable bool) gpubackend.Result
	HostUnregister(addr, bytes uint64) gpubackend.Result
	HostPageable(addr, bytes uint64) gpubackend.Result
}

// Maps counts the uses of the guest's pages.
type Maps interface {
	Find(id uint32) *maps.Map
	Use(m *maps.Map)
	Drop(m *maps.Map)
}

// Config is what a HostMemory needs.
type Config struct {
	Driver Driver
	Maps   Maps
	Places *addresses.Quota
	// Files gives the files behind a map, which must be whole pages.
	Files func(m *maps.Map) ([]guestmem.Run, error)
	// WhenIdle makes a call be answered with what then returns, when the work of its context is
	// done.
	WhenIdle func(c *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result
	// Mapped counts bytes that the device reaches through mappings.
	Mapped func(bytes uint64)
	Log    *logrus.Entry
}

// HostMemory is the guest's memory at its own addresses.
type HostMemory struct {
	Config
	ranges  map[uint32]*pinned // by map
	growing map[uint64]*whole  // those to which more will be added, by where they end
	spans   spans
	shown   map[*maps.Map]*shown
}

// New returns a HostMemory with nothing in it.
func New(c Config) *HostMemory {
	return &HostMemory{
		Config: c, ranges: map[uint32]*pinned{}, growing: map[uint64]*whole{},
		shown: map[*maps.Map]*shown{},
	}
}

// Handlers are the commands that a HostMemory executes.
func (s *HostMemory) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpHostRegister:   call.Decoded(command.DecodeHostRegister, s.pin),
		gpubackend.OpHostUnregister: call.Decoded(command.DecodeHostUnregister, s.unpin),
		gpubackend.OpHostKeep:       call.Decoded(command.DecodeHostKeep, s.keepWhenIdle),
		gpubackend.OpHostPageable:   call.Decoded(command.DecodeHostPageable, s.pageable),
	}
}

const pageSize = 4096

// Pinned is how many ranges are pinned.
func (s *HostMemory) Pinned() int { return len(s.ranges) }

// Shown is how many ranges of ordinary memory are shown or once were.
func (s *HostMemory) Shown() int { return len(s.spans) }

// Uses is how many uses a map has because it is pinned.
func (s *HostMemory) Uses(m *maps.Map) int {
	if s.ranges[m.ID] != nil {
		return 1
	}
	return 0
}
