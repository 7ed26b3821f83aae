// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/paracuda/paracuda/gpubackend/frontend"
	"github.com/paracuda/paracuda/qemu"
)

// attachTimeout bounds a hot-plug: the guest has to answer.
const attachTimeout = 2 * time.Minute

// carrierHelp is on how QEMU carries the queues.
const carrierHelp = "`NAME` of QEMU's device that carries the queues: fs (vhost-user-fs-pci, the default) or " +
	"generic (vhost-user-test-device-pci, from QEMU 10.2 on)"

func runAttach(args []string) error {
	f := newFlags("attach", "--qmp SOCKET --device SOCKET [options]",
		"Plugs the GPU that `paracuda device` serves on a socket into a running QEMU, by QMP.\n"+
			"A GPU of the same id is taken out first: the way back after its device process has ended.")
	qmp := f.String("qmp", "", "QEMU's QMP `SOCKET` (-qmp unix:SOCKET,server=on,wait=off)")
	var d qemu.Device
	f.StringVar(&d.Socket, "device", "", "`SOCKET` of paracuda device")
	f.StringVar(&d.ID, "id", "", "`ID` of the device in QEMU (default paracuda0)")
	f.StringVar(&d.Bus, "bus", "", "PCIe `PORT` to plug it into (default "+qemu.Port+")")
	f.IntVar(&d.Queues, "queues", 17, "`N` virtqueues: one more than the device's channels")
	f.Func("carrier", carrierHelp, func(name string) (err error) {
		d.Carrier, err = qemu.ParseCarrier(name)
		return err
	})
	wait := f.Duration("wait", 30*time.Second,
		"wait so long for the guest's driver to start (0: not at all)")
	if err := parse(f, args); err != nil {
		return err
	}
	if *wait < 0 {
		return fmt.Errorf("attach: --wait %v: want 0 or more", *wait)
	}
	if *qmp == "" || d.Socket == "" {
		return errors.New("attach: want --qmp SOCKET and --device SOCKET")
	}
	path, err := filepath.Abs(d.Socket)
	if err != nil {
		return err
	}
	d.Socket = path
	if err := errors.Join(checkSocket("--qmp", *qmp),
		checkSocket("--device", d.Socket)); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, attachTimeout+*wait)
	defer cancel()
	if err := frontend.CheckFree(d.Socket); err != nil {
		return fmt.Errorf("attach: %s: %w", d.Socket, err)
	}
	say := func(text string) { fmt.Fprintln(os.Stderr, "paracuda:", text) }
	if err := qemu.Attach(ctx, *qmp, d, qemu.Options{Say: say}); err != nil || *wait == 0 {
		return err
	}
	if err := frontend.AwaitDriver(ctx, d.Socket, *wait); err != nil {
		return fmt.Errorf("attach: the device is plugged in, but %w: is the guest package installed there? The guest kernel's log says more", err)
	}
	return nil
}

func runDetach(args []string) error {
	f := newFlags("detach", "--qmp SOCKET [--id ID]",
		"Takes the GPU out of a running QEMU, by QMP.")
	qmp := f.String("qmp", "", "QEMU's QMP `SOCKET`")
	id := f.String("id", "", "`ID` of the device in QEMU (default paracuda0)")
	if err := parse(f, args); err != nil {
		return err
	}
	if *qmp == "" {
		return errors.New("detach: want --qmp SOCKET")
	}
	if err := checkSocket("--qmp", *qmp); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
	defer cancel()
	return qemu.Detach(ctx, *qmp, *id)
}
