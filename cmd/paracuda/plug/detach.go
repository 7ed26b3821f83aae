// SPDX-License-Identifier: Apache-2.0

package plug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/suspension"
	"github.com/paracuda/paracuda/qemu"
)

const detachText = `Takes the GPU out of a running VM, by QMP or through libvirt.
With --suspend, all that the VM's programs have on the GPU goes to FILE first, as with paracuda
suspend --to; they wait in the VM, wherever it is moved, until a GPU is plugged in again with
paracuda attach --from FILE, or --patience is over: then their calls fail.`

// detachOptions are the flags of `paracuda detach`.
type detachOptions struct {
	vm                   target
	id, suspend, control string
	patience             time.Duration
	kill                 bool
}

// Detach is `paracuda detach`.
func Detach() *cobra.Command {
	var o detachOptions
	c := &cobra.Command{
		Use:   "detach {--qmp SOCKET | --domain NAME} [--id ID] [--suspend FILE] [options]",
		Short: "take a GPU out of a running VM",
		Long:  detachText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return o.run() },
	}
	o.vm.options(c)
	f := c.Flags()
	f.StringVar(&o.id, "id", "", "`ID` of the device in QEMU (default paracuda0)")
	f.StringVar(&o.suspend, "suspend", "",
		"suspend the VM to `FILE` first, for paracuda attach --from")
	controlOption(c, &o.control)
	f.DurationVar(&o.patience, "patience", time.Hour,
		"with --suspend: how much `TIME` programs wait for the GPU to be back")
	f.BoolVar(&o.kill, "kill", false,
		"with --suspend: end the programs whose work goes on for longer than stop-grace")
	return c
}

func (o *detachOptions) run() error {
	vm, err := o.vm.of("detach")
	if err != nil {
		return err
	}
	control := ""
	if o.suspend != "" {
		if control, err = o.vm.controlOf("detach", "suspend", o.control); err != nil {
			return err
		}
		if o.patience < time.Second {
			return cli.Usagef("detach: --patience %v: want 1s or more", o.patience)
		}
		if err := suspension.To(control, o.suspend,
			suspension.Options{Away: o.patience, Kill: o.kill}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
	defer cancel()
	long := cli.NewProgress(os.Stderr)
	long.Now("waiting for the VM to give the GPU back")
	err = qemu.Detach(ctx, vm, o.id)
	long.Now("")
	if err == nil || o.suspend == "" {
		return err
	}
	// The VM has the GPU still: its programs go on.
	if back := suspension.From(control, o.suspend); back != nil {
		return errors.Join(err, fmt.Errorf("the VM stays suspended: %w", back))
	}
	return fmt.Errorf("%w: the VM goes on with it, and %s is of no use", err, o.suspend)
}
