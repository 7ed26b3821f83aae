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

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/frontend"
	"github.com/paracuda/paracuda/qemu"
)

// attachTimeout bounds a hot-plug: the guest has to answer.
const attachTimeout = 2 * time.Minute

// carrierHelp is on how QEMU carries the queues.
const carrierHelp = "`NAME` of QEMU's device that carries the queues: " +
	"fs (vhost-user-fs-pci, the default) or generic (vhost-user-test-device-pci, from QEMU 10.2 on)"

// attachOptions are the flags of `paracuda attach`.
type attachOptions struct {
	qmp    string
	device qemu.Device
	wait   time.Duration
}

const attachText = `Plugs the GPU that paracuda device serves on a socket into a running QEMU,
by QMP. A GPU of the same id is taken out first: the way back after its device process has
ended.`

func attachCommand() *cobra.Command {
	var o attachOptions
	c := &cobra.Command{
		Use:   "attach --qmp SOCKET --device SOCKET [options]",
		Short: "plug a served GPU into a running QEMU",
		Long:  attachText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return o.run() },
	}
	f := c.Flags()
	f.StringVar(&o.qmp, "qmp", "", "QEMU's QMP `SOCKET` (-qmp unix:SOCKET,server=on,wait=off)")
	f.StringVar(&o.device.Socket, "device", "", "`SOCKET` of paracuda device")
	f.StringVar(&o.device.ID, "id", "", "`ID` of the device in QEMU (default paracuda0)")
	f.StringVar(&o.device.Bus, "bus", "", "PCIe `PORT` to plug it into (default "+qemu.Port+")")
	f.IntVar(&o.device.Queues, "queues", 17, "`N` virtqueues: one more than the device's channels")
	carrierOption(c, &o.device.Carrier)
	f.DurationVar(&o.wait, "wait", 30*time.Second,
		"wait for so long a `TIME` for the guest's driver to start (0: not at all)")
	return c
}

// carrierOption adds --carrier to a command.
func carrierOption(c *cobra.Command, carrier *qemu.Carrier) {
	c.Flags().Func("carrier", carrierHelp, func(name string) (err error) {
		*carrier, err = qemu.ParseCarrier(name)
		return err
	})
	cli.Complete(c, "carrier", cli.Words("fs", "generic"))
}

func (o *attachOptions) run() error {
	if o.wait < 0 {
		return cli.Usagef("attach: --wait %v: want 0 or more", o.wait)
	}
	if o.qmp == "" || o.device.Socket == "" {
		return cli.Usagef("attach: want --qmp SOCKET and --device SOCKET")
	}
	d := o.device
	path, err := filepath.Abs(d.Socket)
	if err != nil {
		return err
	}
	d.Socket = path
	if err := errors.Join(cli.CheckSocket("--qmp", o.qmp),
		cli.CheckSocket("--device", d.Socket)); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, attachTimeout+o.wait)
	defer cancel()
	if err := frontend.CheckFree(d.Socket); err != nil {
		return fmt.Errorf("attach: %s: %w", d.Socket, err)
	}
	say := func(text string) { fmt.Fprintln(os.Stderr, "paracuda:", text) }
	if err := qemu.Attach(ctx, o.qmp, d, qemu.Options{Say: say}); err != nil || o.wait == 0 {
		return err
	}
	if err := frontend.AwaitDriver(ctx, d.Socket, o.wait); err != nil {
		return fmt.Errorf("attach: the device is plugged in, but %w: is the "+
			"guest package installed there? The guest kernel's log says more", err)
	}
	return nil
}
