// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/mapleave"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// policy says what a worker may map: what is its channel's, as the guest's driver says, and the
// rings of its queue, as the front end says. Of a driver that says nothing it may map everything.
type policy struct {
	x *Mappings
	w *workers.Worker
	// cameBack waits for the VM's memory. A worker may make files before that.
	cameBack func()
}

// Stands implements mapleave.Policy.
func (p policy) Stands(number uint32) bool { return p.x.RAM.Stands(number) }

// Make implements mapleave.Policy.
func (p policy) Make(f memfd.Form, give func(fd int) error) error {
	pid, known := p.w.PID()
	if p.x.Config.Make == nil || !known {
		return errNoMaker
	}
	file, err := p.x.Config.Make(pid, f)
	if err != nil {
		return err
	}
	defer file.Close()
	return give(int(file.Fd()))
}

// Allow implements mapleave.Policy.
func (p policy) Allow(m mapleave.Mapping, give func(fd int) error) error {
	p.cameBack()
	root := p.x.Vouchers()
	if root == 0 {
		p.x.all.Do(func() {
			p.x.Log.Info("the guest's driver doesn't say what its programs share with workers: " +
				"these may map all of the VM's memory; install the guest package of this version")
		})
		return p.x.RAM.Allow(m, nil, give)
	}
	reason := vouchers.ReasonOf(m.Right)
	if reason.Kind == vouchers.Rings {
		return p.x.RAM.Allow(m, p.rings(), give)
	}
	channel := p.w.Channel()
	if channel < 0 {
		return errNoChannel
	}
	c := vouchers.Exposure{Root: root, Channel: uint32(channel)}
	by := func(mem vouchers.Memory, write bool, has func(wire.Run) bool) error {
		return c.Allows(mem, reason, write, has)
	}
	return p.x.RAM.Allow(m, by, give)
}

var (
	errNoChannel = errors.New("a worker without a channel")
	errNoMaker   = errors.New("nobody makes files for workers")
	errNoRings   = errors.New("not the rings of its queue")
)

// rings allows those of the worker's queue. One that was taken over waits until the front end has
// said where they are.
func (p policy) rings() ram.By {
	rings := p.w.AwaitRings()
	return func(_ vouchers.Memory, _ bool, has func(wire.Run) bool) error {
		for _, r := range rings {
			if has(r) {
				return nil
			}
		}
		return fmt.Errorf("%d rings: %w", len(rings), errNoRings)
	}
}
