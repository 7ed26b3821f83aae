// SPDX-License-Identifier: Apache-2.0

package plug

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/qemu"
)

// Detach is `paracuda detach`.
func Detach() *cobra.Command {
	var vm target
	var id string
	c := &cobra.Command{
		Use:   "detach {--qmp SOCKET | --domain NAME} [--id ID]",
		Short: "take a GPU out of a running VM",
		Long:  "Takes the GPU out of a running VM, by QMP or through libvirt.",
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return detach(&vm, id) },
	}
	vm.options(c)
	c.Flags().StringVar(&id, "id", "", "`ID` of the device in QEMU (default paracuda0)")
	return c
}

func detach(v *target, id string) error {
	vm, err := v.of("detach")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
	defer cancel()
	return qemu.Detach(ctx, vm, id)
}
