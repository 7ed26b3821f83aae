// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
)

// noArbiter is the --arbiter of a VM that takes part in no sharing.
const noArbiter = "none"

// tellEvery is how often a device process tells the arbiter its VM's figures.
const tellEvery = time.Second

// sharingFlags are those of commands that serve a VM. Without a name it has a default.
func sharingFlags(c *cobra.Command, path, name *string, named string) {
	f := c.Flags()
	f.StringVar(path, "arbiter", "", "share the GPU by the arbiter at the socket `PATH`, "+
		"which must exist; none: don't share it (default: by the host's arbiter, or the user's "+
		"own, whenever there is one)")
	f.StringVar(name, "name", "", "the arbiter knows the VM as `NAME` (default: "+named+")")
}

// vmName is the VM's name for an arbiter: the one that is given, or else that of its configuration
// file or socket.
func (o *deviceOptions) vmName() (string, error) {
	if o.name != "" {
		return o.name, policy.CheckName(o.name)
	}
	file := cmp.Or(o.config, o.socket)
	if file == "" {
		return fmt.Sprint("device-", os.Getpid()), nil
	}
	base := filepath.Base(file)
	base = cmp.Or(strings.TrimSuffix(base, filepath.Ext(base)), base)
	name := strings.Map(func(r rune) rune {
		if policy.CheckName(string(r)) != nil {
			return '-'
		}
		return r
	}, base)
	return name[:min(len(name), policy.MaxName)], nil
}

// sharing is a VM's part in the sharing of the GPU. The zero value takes no part.
type sharing struct {
	options *deviceOptions
	name    string
	page    *gate.Page
	log     *logrus.Entry
	client  *client.Client
	connect func(path string) (*net.UnixConn, error) // to the arbiter; nil: the usual way
	quit    chan struct{}
	ended   sync.WaitGroup
}

// newSharing makes what the device's workers need. It takes part once it has joined.
func (o *deviceOptions) newSharing(
	log *logrus.Entry, connect func(path string) (*net.UnixConn, error),
	newGate func() (*gate.Page, error),
) (*sharing, error) {
	if o.arbiter == noArbiter {
		if o.settings.Time != settings.Default().Time {
			return nil, cli.Usagef("--arbiter none: weight, time-limit, class and turn need one")
		}
		if o.settings.Swap {
			return nil, cli.Usagef("--arbiter none: memory-mode=swap needs one: leave either out")
		}
		if o.settings.Exclusive {
			return nil, cli.Usagef("--arbiter none: exclusive=on needs one: leave either out")
		}
		return &sharing{}, nil
	}
	name, err := o.vmName()
	if err != nil {
		return nil, err
	}
	if err := cli.CheckSocket("--arbiter", o.arbiter); err != nil {
		return nil, err
	}
	page, err := newGate()
	if err != nil {
		return nil, err
	}
	return &sharing{options: o, name: name, page: page, log: log, connect: connect,
		quit: make(chan struct{})}, nil
}

// sharer is what the device asks for a change of policies; nil: there is none.
func (s *sharing) sharer() settings.Sharer {
	if s.page == nil {
		return nil
	}
	return s
}

// Set asks for another policy.
func (s *sharing) Set(policy map[string]string) error { return s.client.Set(policy) }

// Joined says whether there is an arbiter now.
func (s *sharing) Joined() bool { return s.client.Joined() }

// VM is the VM as the arbiter had it a moment ago.
func (s *sharing) VM() *link.VM { return s.client.VM() }

// Stay tells where the VM's memory is.
func (s *sharing) Stay(p *link.Place) {
	if s.client != nil { // otherwise it joins later, and tells that then
		s.client.Stay(p)
	}
}

// join joins the arbiter, before anybody can ask the device for anything. again says that its VM
// runs already.
func (s *sharing) join(dev *device.Device, gpu string, again bool) (err error) {
	if s.page == nil {
		return nil
	}
	s.client, err = client.New(client.Config{
		Path: s.options.arbiter, Required: s.options.arbiter != "", Name: s.name,
		Again: again,
		GPUs:  s.options.shared(gpu), Room: s.options.chosen.room,
		Policy: s.options.settings.Wishes(), Page: s.page, Log: s.log,
		Connect: s.socket(),
		Place:   dev.Place().Place, Order: dev.Place().Ordered, Warm: dev.BoundWarm,
		Alone: func(away bool) {
			dev.Place().Alone(away)
			if away {
				dev.BoundWarm(device.AnyWarm)
			}
		},
		Terms: func(t *link.Terms) {
			if err := dev.Bound(t.Bounds); err != nil {
				s.log.WithError(err).Warn("a bound of the arbiter's can't be kept")
			}
		},
	})
	if err != nil {
		return fmt.Errorf("VM %s: %w", s.name, err)
	}
	switch joined := s.client.Joined(); {
	case joined:
		dev.BoundWarm(0) // until the arbiter says something else
	case again: // else it has been told already, or is
		dev.Place().Alone(true)
	}
	s.ended.Go(func() { s.tell(dev) })
	return nil
}

// socket returns how to connect to the arbiter; nil: the usual way.
func (s *sharing) socket() func(path string) (link.Socket, error) {
	if s.connect == nil {
		return nil
	}
	return func(path string) (link.Socket, error) {
		c, err := s.connect(path)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// shared are the GPUs that the VM uses, by names that all VMs have for them.
func (o *deviceOptions) shared(gpu string) []link.GPU {
	if gpu == gpuSoft {
		return o.sharedSoft()
	}
	gpus := make([]link.GPU, len(o.chosen.gpus))
	for i := range gpus {
		gpus[i] = link.GPU{Name: o.chosen.gpus[i].UUID, Memory: o.chosen.gpus[i].Memory}
	}
	return gpus
}

// sharedSoft are the software GPUs: the first is soft, the others soft-1 and so on.
func (o *deviceOptions) sharedSoft() []link.GPU {
	p := &o.settings.Policy
	gpus := make([]link.GPU, max(1, p.SoftGPUs))
	for i := range gpus {
		gpus[i] = link.GPU{Name: softName(i), Memory: p.SoftMemory}
	}
	return gpus
}

// counted are the ids by which memory of the VM's GPUs is counted.
func (o *deviceOptions) counted(gpu string) []uint64 {
	var ids []uint64
	if gpu == gpuSoft {
		for i := range o.sharedSoft() {
			ids = append(ids, ledger.ID(chip.NumberedUUID(i)))
		}
		return ids
	}
	for i := range o.chosen.gpus {
		uuid, err := hostgpus.ParseUUID(o.chosen.gpus[i].UUID)
		if err != nil {
			return nil
		}
		ids = append(ids, ledger.ID(uuid))
	}
	return ids
}

// softName is what VMs call their software GPU i.
func softName(i int) string {
	if i == 0 {
		return gpuSoft
	}
	return fmt.Sprint(gpuSoft, "-", i)
}

// tell tells figures now and then, and when the VM wants other warm workers.
func (s *sharing) tell(dev *device.Device) {
	t := time.NewTicker(tellEvery)
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-dev.WarmNews():
			s.client.Tell(dev.Figures(), dev.Warm())
		case <-t.C:
			if s.client.Joined() {
				s.client.Tell(dev.Figures(), dev.Warm())
				s.client.Stay(dev.Place().Place())
				if v := s.client.VM(); v != nil {
					dev.Shared(v.Share)
				}
			}
		}
	}
}

// close leaves the arbiter. The page stays as long as the process: workers may still be ending.
func (s *sharing) close() {
	if s.client != nil {
		close(s.quit)
		s.ended.Wait()
		s.client.Close()
	}
}
