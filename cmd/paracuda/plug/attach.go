// SPDX-License-Identifier: Apache-2.0

// Package plug has the commands that plug a served GPU into a running VM and take it out: by QMP,
// or through libvirt. Package qemu does it; these read command lines, and wait for the guest's
// driver. QEMU and libvirt are trusted: they belong to the user of the command.
package plug

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/frontend"
	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/qemu/domain"
)

// attachTimeout bounds a hot-plug: the guest has to answer.
const attachTimeout = 2 * time.Minute

// carrierHelp is on how QEMU carries the queues.
const carrierHelp = "`NAME` of QEMU's device that carries the queues: " +
	"fs (vhost-user-fs-pci, the default) or generic (vhost-user-test-device-pci, from QEMU 10.2 on)"

// attachOptions are the flags of `paracuda attach`.
type attachOptions struct {
	vm            target
	device        qemu.Device
	wait          time.Duration
	from, control string
}

const attachText = `Plugs the GPU that paracuda device serves on a socket into a running VM,
by QMP or through libvirt. A GPU of the same id is taken out first: so a VM whose device process has
ended gets another one.
With --from, the VM's programs go on that have waited since paracuda detach --suspend, on this host
or on the one from which the VM was migrated.`

// target is the running VM that attach and detach are given.
type target struct{ qmp, domain, uri string }

func (v *target) options(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&v.qmp, "qmp", "", "QEMU's QMP `SOCKET` (-qmp unix:SOCKET,server=on,wait=off)")
	f.StringVar(&v.domain, "domain", "", "`NAME` of libvirt's domain, instead of --qmp")
	f.StringVar(&v.uri, "connect", "", "`URI` of libvirt's daemon, "+domain.System+" or "+
		domain.Session+" (default: as virsh has it)")
	cli.Complete(c, "connect", cli.Words(domain.System, domain.Session))
	cli.Complete(c, "domain", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return running(runningDomains...), cobra.ShellCompDirectiveNoFileComp
	})
}

// runningDomains are where libvirt keeps the descriptions of domains that run.
var runningDomains = []string{
	"/run/libvirt/qemu", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "libvirt/qemu/run"),
}

// running are the names of the domains that run, as far as this user may know.
func running(dirs ...string) (names []string) {
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*.xml"))
		for _, file := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".xml"))
		}
	}
	return names
}

// of is the VM, for a command.
func (v *target) of(command string) (qemu.Target, error) {
	switch {
	case (v.qmp == "") == (v.domain == ""):
		return nil, cli.Usagef("%s: want --qmp SOCKET or --domain NAME", command)
	case v.domain != "":
		return qemu.LibvirtDomain{URI: v.uri, Name: v.domain}, nil
	case v.uri != "":
		return nil, cli.Usagef("%s: --connect is for --domain", command)
	}
	return qemu.QMP(v.qmp), cli.CheckSocket("--qmp", v.qmp)
}

// vmControl is where the host package's services have a VM's control socket.
func vmControl(name string) string { return "/run/paracuda/" + name + "/control.sock" }

// controlOption adds --control to a command.
func controlOption(c *cobra.Command, control *string) {
	c.Flags().StringVar(control, "control", "",
		"control `SOCKET` of paracuda device (default with --domain: "+vmControl("NAME")+")")
}

// controlOf is the control socket of the VM's device, for an option that needs it.
func (v *target) controlOf(command, option, control string) (string, error) {
	switch {
	case control != "":
		return control, nil
	case v.domain != "":
		return vmControl(v.domain), nil
	}
	return "", cli.Usagef("%s: --%s needs --control SOCKET", command, option)
}

// vmSocket is where the host package's services have a VM's GPU.
func vmSocket(name string) string { return "/run/paracuda/" + name + ".sock" }

// Attach is `paracuda attach`.
func Attach() *cobra.Command {
	var o attachOptions
	c := &cobra.Command{
		Use:   "attach {--qmp SOCKET | --domain NAME} [--device SOCKET] [options]",
		Short: "plug a served GPU into a running VM",
		Long:  attachText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return o.run() },
	}
	o.vm.options(c)
	f := c.Flags()
	f.StringVar(&o.device.Socket, "device", "",
		"`SOCKET` of paracuda device (default with --domain: "+vmSocket("NAME")+")")
	f.StringVar(&o.device.ID, "id", "", "`ID` of the device in QEMU (default paracuda0)")
	f.StringVar(&o.device.Bus, "bus", "", "PCIe `PORT` to plug it into (default: "+qemu.Port+
		" if there is one, or else a free one)")
	f.IntVar(&o.device.Queues, "queues", 17, "`N` virtqueues: one more than the device's channels")
	CarrierOption(c, &o.device.Carrier)
	f.StringVar(&o.from, "from", "", "`FILE` of paracuda detach --suspend, from which the VM's "+
		"programs go on")
	controlOption(c, &o.control)
	f.DurationVar(&o.wait, "wait", 30*time.Second,
		"wait for so long a `TIME` for the guest's driver to start (0: not at all)")
	return c
}

// CarrierOption adds --carrier to a command.
func CarrierOption(c *cobra.Command, carrier *qemu.Carrier) {
	c.Flags().Func("carrier", carrierHelp, func(name string) (err error) {
		*carrier, err = qemu.ParseCarrier(name)
		return err
	})
	cli.Complete(c, "carrier", cli.Words("fs", "generic"))
}

// complete says where the device is.
func (o *attachOptions) complete() (d qemu.Device, err error) {
	d = o.device
	if d.Socket == "" && o.vm.domain != "" {
		d.Socket = vmSocket(o.vm.domain)
	}
	if d.Socket == "" {
		return d, cli.Usagef("attach: want --device SOCKET")
	}
	if d.Socket, err = filepath.Abs(d.Socket); err != nil {
		return d, err
	}
	return d, cli.CheckSocket("--device", d.Socket)
}

func (o *attachOptions) run() error {
	if o.wait < 0 || o.wait == 0 && o.from != "" {
		return cli.Usagef("attach: --wait %v: want 0 or more, and with --from more", o.wait)
	}
	vm, err := o.vm.of("attach")
	if err != nil {
		return err
	}
	d, err := o.complete()
	if err != nil {
		return err
	}
	r := returning{path: o.from, wait: o.wait}
	if o.from != "" {
		if r.control, err = o.vm.controlOf("attach", "from", o.control); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, attachTimeout+o.wait)
	defer cancel()
	if err := frontend.CheckFree(d.Socket); err != nil {
		return fmt.Errorf("attach: %s: %w", d.Socket, err)
	}
	if err := r.expect(); err != nil {
		return err
	}
	say := func(text string) { fmt.Fprintln(os.Stderr, "paracuda:", text) }
	long := cli.NewProgress(os.Stderr)
	defer long.Now("")
	long.Now("plugging the GPU into the VM")
	if err := qemu.Attach(ctx, vm, d, qemu.Options{Say: say}); err != nil || o.wait == 0 {
		return err
	}
	long.Now("waiting for the VM's driver to start")
	if err := frontend.AwaitDriver(ctx, d.Socket, o.wait); err != nil {
		return fmt.Errorf("attach: the device is plugged in, but %w: is the "+
			"guest package installed there? The guest kernel's log says more", err)
	}
	long.Now("")
	return r.goOn(ctx)
}
