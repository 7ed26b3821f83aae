// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/vhostuser"
)

// deviceOptions are the flags of `paracuda device`.
type deviceOptions struct {
	socket, gpu, stats, level, trace, control string
	fd                                        int
	capabilities                              bool
	settings                                  device.Settings
}

func runDevice(args []string) error {
	o := deviceOptions{settings: device.DefaultSettings()}
	f := newFlags("device", "--socket-path PATH | --fd N [options]",
		"Serves the GPU to one VM. QEMU connects with -chardev socket,id=gpu,path=PATH and\n"+
			"-device vhost-user-test-device-pci,chardev=gpu,virtio-id=37,num_vqs=17,vq_size=256,config_size=256.\n"+
			"It ends when the VM does, or on SIGTERM.")
	f.StringVar(&o.socket, "socket-path", "", "listen on the UNIX socket `PATH`")
	f.IntVar(&o.fd, "fd", -1, "use the connected or listening socket inherited as descriptor `N`")
	f.BoolVar(&o.capabilities, "print-capabilities", false, "print what the back end can do, as JSON, and exit")
	f.StringVar(&o.gpu, "gpu", gpuAuto, gpuHelp)
	f.StringVar(&o.control, "control", "", "answer paracuda set and paracuda stats on the UNIX socket `PATH`")
	f.StringVar(&o.stats, "stats", "", "write counters to `FILE`, as JSON, at the end")
	f.StringVar(&o.level, "log-level", "info", "`LEVEL`: debug, info, warning or error")
	f.StringVar(&o.trace, "trace", "", "write the vhost-user messages to `FILE`, as lines of hex")
	f.Func("set", "`KEY=VALUE`: set a policy of the VM (see below; may be repeated)", o.settings.Set)
	f.Func("warm-workers", "keep `N` workers ready for the programs to come: as --set warm-workers=N", func(n string) error {
		return o.settings.Set("warm-workers=" + n)
	})
	usage := f.Usage
	f.Usage = func() {
		usage()
		fmt.Println("\nKeys for --set:")
		device.PrintSettings(os.Stdout)
	}
	if err := parse(f, args); err != nil {
		return err
	}
	if o.capabilities {
		return printCapabilities(os.Stdout)
	}
	if (o.socket == "") == (o.fd < 0) {
		return errors.New("device: want --socket-path PATH or --fd N")
	}
	return o.serve()
}

// printCapabilities follows the conventions for vhost-user back ends ("Backend program conventions").
func printCapabilities(w io.Writer) error {
	return json.NewEncoder(w).Encode(map[string]any{"type": "gpu", "features": []string{}})
}

func (o *deviceOptions) serve() error {
	log, endLog, err := newLog(os.Stderr, o.level, "device")
	if err != nil {
		return err
	}
	defer endLog()
	gpu, err := chooseGPU(o.gpu)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	out, err := o.open()
	defer out.close()
	if err != nil {
		return err
	}
	dev := device.New(device.Config{
		GPU: gpu, Settings: o.settings, Generation: uint32(time.Now().UnixNano()) | 1, Spawn: spawner{level: o.level, log: log}, Log: log,
	})
	var front frontEnd
	if out.control != nil {
		go dev.ServeAdmin(out.control, func() { front.changed(log) })
	}
	conn, err := o.connect(ctx, log.WithField("gpu", gpu))
	if ctx.Err() != nil {
		return o.writeStats(dev, gpu, log)
	}
	if err != nil {
		return err
	}
	ensureEnd(ctx, conn, endLimit, endLook, giveUp(log, endLog))
	options := vhostuser.Options{Log: log}
	if out.trace != nil {
		options.Trace = out.trace
	}
	session, err := vhostuser.New(conn, dev, options)
	if err != nil {
		return fmt.Errorf("start the session: %w", err)
	}
	front.session.Store(session)
	loglimit.Keep(log).WithField("gpu", gpu).Info("front end connected")
	err = session.Run(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, o.writeStats(dev, gpu, log))
}

// frontEnd is the session, once there is one: policies may change before.
type frontEnd struct {
	session atomic.Pointer[vhostuser.Session]
}

// changed tells the guest of a change of policies, unless it is yet to read them.
func (f *frontEnd) changed(log *logrus.Entry) {
	s := f.session.Load()
	if s == nil {
		return
	}
	if err := s.ConfigChanged(); err != nil {
		log.WithError(err).Info("the guest is not told of the change")
	}
}

// connect gets the one connection that is served: a front end can't come back, so there is no second.
func (o *deviceOptions) connect(ctx context.Context, log *logrus.Entry) (*net.UnixConn, error) {
	var listener *net.UnixListener
	var err error
	if o.fd >= 0 {
		var conn *net.UnixConn
		if listener, conn, err = vhostuser.Inherit(o.fd); err != nil || conn != nil {
			return conn, err
		}
	} else if listener, err = listen("--socket-path", o.socket); err != nil {
		return nil, err
	}
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	loglimit.Keep(log).Info("waits for a front end")
	return listener.AcceptUnix()
}

// writeStats writes the counters of the VM.
func (o *deviceOptions) writeStats(dev *device.Device, gpu string, log *logrus.Entry) error {
	if o.stats == "" {
		return nil
	}
	stats := map[string]any{"gpu": gpu}
	counters := dev.Counters()
	for name, n := range counters.Map() {
		stats[name] = n
	}
	stats["commands_per_batch"] = counters.CommandsPerBatch()
	b, err := json.MarshalIndent(stats, "", "  ")
	if err != nil {
		return err
	}
	log.Debug("write counters")
	return os.WriteFile(o.stats, append(b, '\n'), 0o644)
}
