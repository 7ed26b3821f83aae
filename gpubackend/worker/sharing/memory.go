// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"golang.org/x/sys/unix"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// Driver is what Sharing uses of gpubackend.Driver.
type Driver interface {
	Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result)
	MapShared(s gpubackend.Shared, fd int) (addr uint64, result gpubackend.Result)
	TakeShared(addr uint64, s gpubackend.Shared, fd int) gpubackend.Result
	UnmapShared(addr uint64) gpubackend.Result
	ShareEvent(e gpubackend.Event) (s gpubackend.SharedEvent, fd int, result gpubackend.Result)
	OpenEvent(s gpubackend.SharedEvent, fd int) (gpubackend.Event, gpubackend.Result)
}

// Contexts says to which context something belongs.
type Contexts interface {
	Home(handle uint64) uint64
	HomeOfCurrent() uint64
	Set(handle uint64, optional bool) gpubackend.Result
}

// Config is what a Sharing needs.
type Config struct {
	Driver   Driver
	Objects  *object.Table
	Contexts Contexts
	// WhenIdle makes a call be answered with what then returns, when the work of its context is
	// done.
	WhenIdle func(c *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result
	// Watch makes the device call WithdrawIn before it gives up memory.
	Watch func()
	// Offers are this process's, and the way to those of others.
	Offers *offers.Offers
	Log    *logrus.Entry
}

// Sharing is device memory and events that processes of the guest share.
type Sharing struct {
	Config
	offered map[uint64]*offering // memory by the address of the allocation
	mapped  map[uint64]taking    // memory of others, by address
	events  map[uint64]*offering // events by handle
	opened  map[uint64]taking    // events of others, by handle
}

// These bound what a guest can make a worker offer.
const (
	maxMemory = 1 << 12
	maxEvents = 1 << 10
)

// offering is something that is offered.
type offering struct {
	gpubackend.Shared
	offer   *offers.Offer
	context uint64
}

// taking is something of another process's, and the context that has it.
type taking struct {
	name    offers.Secret
	context uint64
}

// New returns a Sharing that offers nothing.
func New(c Config) *Sharing {
	return &Sharing{
		Config: c, offered: map[uint64]*offering{}, mapped: map[uint64]taking{},
		events: map[uint64]*offering{}, opened: map[uint64]taking{},
	}
}

// Handlers are the commands that a Sharing executes.
func (s *Sharing) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpIpcGetMemHandle:  call.Decoded(command.DecodeIpcGetMemHandle, s.shareMemory),
		gpubackend.OpIpcOpenMemHandle: call.Decoded(command.DecodeIpcOpenMemHandle, s.openMemory),
		gpubackend.OpIpcCloseMemHandle: call.Decoded(command.DecodeIpcCloseMemHandle,
			s.closeMemory),
		gpubackend.OpIpcGetEventHandle: call.Decoded(command.DecodeIpcGetEventHandle,
			s.shareEvent),
		gpubackend.OpIpcOpenEventHandle: call.Decoded(command.DecodeIpcOpenEventHandle,
			s.openEvent),
	}
}

// own says whether this process offers something under a name itself.
func own(shares map[uint64]*offering, name offers.Secret) bool {
	for _, x := range shares {
		if x.offer != nil && x.offer.Secret() == name {
			return true
		}
	}
	return false
}

// shareMemory offers an allocation: once, for as long as it exists.
func (s *Sharing) shareMemory(c *call.Call, a command.IpcGetMemHandle) gpubackend.Result {
	x := s.offered[a.Address]
	if x == nil {
		var result gpubackend.Result
		if x, result = s.offerMemory(a.Address, s.Offers.OpenMemory); result != gpubackend.Success {
			return result
		}
	}
	c.Put(command.IpcGetMemHandleAnswer{
		Name: x.offer.Secret(), Start: x.Start, Bytes: x.Bytes, Offset: x.Offset,
	})
	return gpubackend.Success
}

// offerMemory offers an allocation as open does it.
func (s *Sharing) offerMemory(
	address uint64, open func(s gpubackend.Shared, fd int) (*offers.Offer, error),
) (*offering, gpubackend.Result) {
	if len(s.offered) >= maxMemory {
		return nil, gpubackend.OutOfMemory
	}
	shared, fd, result := s.Driver.Share(address)
	if result != gpubackend.Success {
		return nil, result
	}
	if !shared.Allocated {
		unix.Close(fd)
		return nil, gpubackend.InvalidValue
	}
	s.Watch()
	offer, err := open(shared, fd)
	if err != nil {
		s.Log.WithError(err).Warn("share memory")
		return nil, gpubackend.OutOfMemory
	}
	x := &offering{Shared: shared, offer: offer, context: s.Contexts.HomeOfCurrent()}
	s.offered[address] = x
	return x, gpubackend.Success
}

// openMemory maps memory that another worker offers.
func (s *Sharing) openMemory(c *call.Call, a command.IpcOpenMemHandle) gpubackend.Result {
	if own(s.offered, a.Name) {
		return gpubackend.InvalidContext // as in CUDA: memory is shared only between processes
	}
	shared, fd, err := s.Offers.ReceiveMemory(a.Name)
	if err != nil {
		s.Log.WithError(err).Warn("get another process's memory")
		return gpubackend.InvalidValue
	}
	defer unix.Close(fd)
	if shared.Start != a.Start || shared.Bytes != a.Bytes || a.Offset >= shared.Bytes {
		return gpubackend.InvalidValue
	}
	shared.Offset = a.Offset
	address, result := s.Driver.MapShared(shared, fd)
	if result != gpubackend.Success {
		return result
	}
	s.mapped[address] = taking{a.Name, s.Contexts.HomeOfCurrent()}
	c.Put(command.IpcOpenMemHandleAnswer{Address: address + shared.Offset, Whole: address})
	return gpubackend.Success
}

// closeMemory unmaps it when nothing uses it.
func (s *Sharing) closeMemory(c *call.Call, a command.IpcCloseMemHandle) gpubackend.Result {
	if _, ok := s.mapped[a.Whole]; !ok {
		return gpubackend.InvalidValue
	}
	delete(s.mapped, a.Whole)
	return s.WhenIdle(c,
		func() (uint64, gpubackend.Result) { return 0, s.Driver.UnmapShared(a.Whole) })
}

// Withdraw ends the offer of memory that is freed.
func (s *Sharing) Withdraw(address uint64) {
	if x := s.offered[address]; x != nil {
		x.offer.Close()
		delete(s.offered, address)
	}
}

// WithdrawIn ends the offers of memory in a range that the device gives up.
func (s *Sharing) WithdrawIn(address, bytes uint64) {
	for at := range s.offered {
		if at-address < bytes {
			s.Withdraw(at)
		}
	}
}

// Forget ends the offers of a context that is gone, and gives up what it had from others: the
// device doesn't know whose that was.
func (s *Sharing) Forget(context uint64) {
	for address, x := range s.mapped {
		if x.context != context {
			continue
		}
		delete(s.mapped, address)
		if result := s.Driver.UnmapShared(address); result != gpubackend.Success {
			s.Log.WithError(result.Err()).Warn("unmap another process's memory")
		}
	}
	for address, x := range s.offered {
		if x.context == context {
			s.Withdraw(address)
		}
	}
	for handle, x := range s.events {
		if x.context == context {
			s.withdrawEvent(handle)
		}
	}
	for handle, x := range s.opened {
		if x.context == context {
			delete(s.opened, handle)
		}
	}
}

// Close ends all offers.
func (s *Sharing) Close() {
	for address := range s.offered {
		s.Withdraw(address)
	}
	for handle := range s.events {
		s.withdrawEvent(handle)
	}
}

// Has says whether memory of a range is offered, or another process's.
func (s *Sharing) Has(address, bytes uint64) bool {
	for at := range s.offered {
		if at-address < bytes {
			return true
		}
	}
	for at := range s.mapped {
		if at-address < bytes {
			return true
		}
	}
	return false
}

// Offered is how many allocations and how many events are offered.
func (s *Sharing) Offered() (memory, events int) { return len(s.offered), len(s.events) }
