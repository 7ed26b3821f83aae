// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/cgroup"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/frontend"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/vhostuser"
)

// firstInherited is the first descriptor that a program inherits by accident, or on purpose for
// --fd.
const firstInherited = 3

func (o *deviceOptions) serve() error {
	var err error
	if o.logs.VM, err = o.vmName(); err != nil {
		return cli.Usagef("device: %w", err)
	}
	log, endLog, err := logs.New(os.Stderr, &o.logs, "device")
	if err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	defer endLog()
	if err := o.settleIn(); err != nil {
		return err
	}
	before, err := o.takeOver(log)
	if err != nil {
		return err
	}
	defer before.close()
	gpu, err := o.chooseGPUs(log, before.remains)
	if err != nil {
		return err
	}
	defer o.chosen.released()
	process.OutliveTerminal()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	out, err := o.open(before)
	if err != nil {
		return errors.Join(err, out.close())
	}
	s := &server{gpu: gpu, log: log, options: vhostuser.Options{Log: log}, before: before,
		ending: ending{limit: endLimit, look: endLook, done: done}}
	if out.trace != nil {
		s.options.Trace = &out.traced
	}
	err = o.serveWithChildren(ctx, s, out, endLog)
	return errors.Join(err, out.close())
}

// serveWithChildren starts the processes that serve the VM with this one, and ends them.
func (o *deviceOptions) serveWithChildren(
	ctx context.Context, s *server, out *outputs, endLog func(),
) error {
	stderr, endStderr, err := children.Log(os.Stderr, s.log, s.before.remains)
	if err != nil {
		return err
	}
	home, err := o.home(s.gpu, stderr, s.log, s.before.remains)
	if err != nil {
		endStderr()
		return err
	}
	endChildren := sync.OnceFunc(func() {
		if !s.before.left() {
			home.End(o.made(s.hasDoor.Load(), out.control != nil))
		}
		endStderr()
	})
	defer endChildren()
	if s.before.remains != nil {
		go crashAfter(ctx, home.Lost, endLog)
	}
	s.ending.exit = giveUp(s.log, func() {
		s.before.close()
		endChildren()
		endLog()
	})
	shared, err := o.newSharing(s.log, home.Connect, s.before.gate)
	if err != nil {
		return err
	}
	defer shared.close()
	if err := o.makeDevice(s, home, shared); err != nil {
		return err
	}
	if out.control != nil {
		go s.dev.ServeAdmin(out.control)
	}
	if err = o.serveVM(ctx, s); errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, o.writeStats(out.stats, s.dev, s.gpu, s.log), out.close())
}

// makeDevice makes the device, and has it share the GPUs with other VMs.
func (o *deviceOptions) makeDevice(s *server, home *children.Home, shared *sharing) error {
	page, err := s.before.ledger()
	if err != nil {
		return err
	}
	c := o.deviceConfig(s.gpu, s.before, s.log)
	c.Ledger, c.Usage, c.Weigh = page, home.Memory, home.Weigh
	c.Spawn, c.Greeted = home, s.greeted
	c.Trouble, c.Opener, c.Make = s.trouble, home.Opener, home.Make
	if c.From, err = o.openFrom(s.before, s.gpu, s.log); err != nil {
		return err
	}
	c.Before.Left = s.before.notes.Find(home.Left, int(o.settings.Space.Channels), s.log)
	c.Gate, c.Sharer = shared.page, shared.sharer()
	s.dev = device.New(c)
	if err := shared.join(s.dev, s.gpu, s.before.facts != nil); err != nil {
		return err
	}
	o.chosen.released()
	return nil
}

// settleIn drops what this process has inherited by accident, checks that it can make shared
// memory, and enters its control group.
func (o *deviceOptions) settleIn() error {
	if err := sandbox.CloseInherited(firstInherited); err != nil {
		return err
	}
	if err := process.CanShareMemory(); err != nil {
		return err
	}
	if o.cgroup == "" {
		return nil
	}
	return cgroup.Enter(o.cgroup, o.bounds)
}

// deviceConfig is the configuration of a device that goes on from before.
func (o *deviceOptions) deviceConfig(gpu string, b *before, log *logrus.Entry) device.Config {
	return device.Config{
		Build: version, Replace: b.session.replace(), GPU: gpu, Settings: o.settings,
		Counted:    o.counted(gpu),
		Generation: b.generation(), Vouchers: b.vouchers(),
		Log: log, Remains: b.remains, Notes: b.notes, Numbers: b.numbers,
		Asks: bool(o.sandbox),
		Before: device.Inherited{Sequence: b.sequence(), Suspended: b.suspended(),
			Ordered: b.ordered(), InFile: b.inFile()},
	}
}

// server serves a device to front ends, one after the other.
type server struct {
	gpu     string
	dev     *device.Device
	options vhostuser.Options
	log     *logrus.Entry
	ending  ending
	before  *before
	isReady bool
	hasDoor atomic.Bool                    // it has a socket for front ends
	watch   atomic.Pointer[frontend.Watch] // of the front end that is there; nil: none has been
	broken  atomic.Pointer[admin.Trouble]  // what was wrong when the last one's connection broke
}

// trouble is what is wrong with the front end that is there, or was.
func (s *server) trouble() (all []admin.Trouble) {
	if broken := s.broken.Load(); broken != nil {
		return []admin.Trouble{*broken}
	}
	if watch := s.watch.Load(); watch != nil {
		for _, t := range watch.Trouble() {
			all = append(all, admin.Trouble(t))
		}
	}
	return all
}

// serveVM serves the VM whose driver takes the device. A front end can't come back, so no second
// one is served, unless the VM failed to start, for instance by a mistake on its command line.
func (o *deviceOptions) serveVM(ctx context.Context, s *server) error {
	seat, conn, err := o.entrance(s)
	if err != nil {
		return err
	}
	if seat != nil {
		defer seat.Close()
		if conn == nil {
			if err := s.ready(); err != nil {
				return err
			}
		}
	}
	if err := o.confineSelf(s.log); err != nil {
		return err
	}
	if seat == nil {
		_, err := s.serve(ctx, conn)
		return err
	}
	for {
		if conn == nil {
			s.say("waits for a front end")
			if conn, err = seat.Next(ctx); err != nil {
				return err
			}
		} else {
			seat.Serves(conn)
		}
		used, err := s.serve(ctx, conn)
		if used || ctx.Err() != nil {
			return err
		}
		conn = nil
		if err := s.before.session.forget(); err != nil {
			return err
		}
		if err != nil {
			s.log.WithError(err).Warn("the connection broke")
			s.broken.Store(&admin.Trouble{Found: "the connection to QEMU broke: " + err.Error(),
				Fix: "change that in QEMU's command line, and start the VM again"})
		}
		s.log.Warn("the front end is gone, and no driver of its guest's had taken the device: " +
			"did the VM fail to start? The device is there for the next one")
	}
}

// entrance is the socket that front ends connect to, and the one connection that was inherited, or
// taken over from the previous process.
func (o *deviceOptions) entrance(s *server) (*frontend.Seat, *net.UnixConn, error) {
	conn, had := s.before.session.conn(), s.before.facts != nil
	listener, err := s.before.listener(remains.Door)
	switch {
	case err != nil:
		return nil, nil, err
	case listener != nil:
		s.hasDoor.Store(true)
		return frontend.NewSeat(listener, s.log, s.hasDriver), conn, nil
	case had && conn != nil:
		return nil, conn, nil
	}
	if o.fd >= 0 {
		var conn *net.UnixConn
		if listener, conn, err = vhostuser.Inherit(o.fd); err != nil || conn != nil {
			return nil, conn, err
		}
		if err := o.access.give(listener.Addr().String()); err != nil {
			return nil, nil, errors.Join(err, listener.Close())
		}
	} else if listener, err = listen("--socket-path", o.socket, o.access); err != nil {
		return nil, nil, err
	}
	s.hasDoor.Store(true)
	s.before.keep(remains.Door, listener)
	return frontend.NewSeat(listener, s.log, s.hasDriver), nil, nil
}

// greeted is called when our driver has the device.
func (s *server) greeted() {
	if watch := s.watch.Load(); watch != nil {
		watch.Greeted()
	}
}

func (s *server) hasDriver() bool {
	watch := s.watch.Load()
	return watch != nil && watch.HasDriver()
}

// ready says, once, that front ends can connect, or that the one that is there is served.
func (s *server) ready() error {
	if s.isReady {
		return nil
	}
	s.isReady = true
	return s.before.ready()
}

func (s *server) say(text string) {
	loglimit.Keep(s.log).WithFields(logrus.Fields{"gpu": s.gpu, "version": version}).Info(text)
}

// serve serves one front end until it is gone, and says whether its guest's driver had taken the
// device.
func (s *server) serve(ctx context.Context, conn *net.UnixConn) (used bool, err error) {
	over := make(chan struct{})
	s.ending.ensure(ctx, conn, over)
	watch := frontend.New(s.log, s.dev.NumQueues(), frontend.Times{})
	defer watch.Stop()
	s.watch.Store(watch)
	s.broken.Store(nil)
	options := s.options
	options.Progress = func(shown vhostuser.Shown) {
		used = used || shown.Driver
		watch.Saw(shown)
	}
	session, again, err := s.before.session.begin(conn, s.dev, options)
	if err != nil {
		return false, fmt.Errorf("start the session: %w", err)
	}
	if err := s.ready(); err != nil {
		return false, err
	}
	if again {
		s.say("goes on with the front end of the device process before this one")
	} else {
		s.say("front end connected")
	}
	err = session.Run(ctx)
	if !used && ctx.Err() == nil {
		close(over)
	}
	return used, err
}
