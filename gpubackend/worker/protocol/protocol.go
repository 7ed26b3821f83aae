// SPDX-License-Identifier: Apache-2.0

// Package protocol has the commands that belong to the protocol itself: maps that the guest gives
// up, threads that end, and functions that are missing on either side.
//
// The worker's loop owns a Protocol. Everything comes from the guest: what it reports as missing is
// logged, bounded, and at most once for each function.
package protocol

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
)

// maxName is longer than any function's name; mostUnknown bounds how many unknown function numbers
// are noted.
const (
	maxName     = 64
	mostUnknown = 1000
)

// Maps has the guest's maps.
type Maps interface {
	Find(id uint32) *maps.Map
	Give(*maps.Map)
}

// Config is what a Protocol needs.
type Config struct {
	Maps Maps
	// Holds says whether a map is in use as pinned memory, so that it can't be given up.
	Holds     func(*maps.Map) bool
	EndThread func(slot uint16)
	Log       *logrus.Entry
}

// Protocol has the commands of one guest process.
type Protocol struct {
	Config
	unknown map[gpubackend.Op]bool
}

// New returns a Protocol.
func New(c Config) *Protocol { return &Protocol{c, map[gpubackend.Op]bool{}} }

// Handlers are those of the commands.
func (p *Protocol) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.Op(wire.OpUnmap):      call.Decoded(command.DecodeUnmap, p.unmap),
		gpubackend.Op(wire.OpReport):     call.Decoded(command.DecodeReport, p.report),
		gpubackend.Op(wire.OpThreadExit): call.Decoded(command.DecodeThreadExit, p.threadExit),
	}
}

func (p *Protocol) unmap(_ *call.Call, a command.Unmap) gpubackend.Result {
	m := p.Maps.Find(uint32(a.Map))
	if m == nil {
		return gpubackend.InvalidValue
	}
	if p.Holds(m) {
		return gpubackend.NotPermitted
	}
	p.Maps.Give(m)
	return gpubackend.Success
}

// report logs a function that the guest's library lacks. The library reports each once.
func (p *Protocol) report(c *call.Call, a command.Report) gpubackend.Result {
	name, result := c.TextOf(a.Name)
	if result != gpubackend.Success || len(name) > maxName {
		return gpubackend.Success
	}
	p.Log.WithField("function", name).Warn("a program called a function that is not implemented " +
		"and returned CUDA_ERROR_NOT_SUPPORTED")
	return gpubackend.Success
}

func (p *Protocol) threadExit(c *call.Call, _ command.ThreadExit) gpubackend.Result {
	p.EndThread(c.Slot)
	return gpubackend.Success
}

// Unknown logs, once for each function, that it isn't there.
func (p *Protocol) Unknown(op gpubackend.Op) {
	if p.unknown[op] || len(p.unknown) >= mostUnknown {
		return
	}
	p.unknown[op] = true
	p.Log.WithField("function", op.Name()).Warn("guest called a function that is not implemented")
}
