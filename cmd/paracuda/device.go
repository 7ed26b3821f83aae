// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/cgroup"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
)

// deviceOptions are the flags of `paracuda device`.
type deviceOptions struct {
	socket, gpu, stats, trace, control string
	chosen                             chosen
	config                             string
	arbiter, name                      string
	logs                               logs.Flags
	fd                                 int
	keeper                             cli.OnOff
	from                               string // a file that the VM is to go on from
	replace                            bool
	kept, keptControl                  int               // descriptors from the keeper; -1: none
	access                             socketAccess      // to socket
	controlSocket                      *net.UnixListener // inherited, instead of control
	sandbox                            cli.OnOff
	passEnv                            []string
	cgroup                             string
	bounds                             cgroup.Bounds
	settings                           settings.Settings
	given                              map[string]bool // the settings that --set has
}

const deviceText = `Serves the GPU to one VM. QEMU connects with
  -device pcie-root-port,id=paracuda-port,chassis=9
  -chardev socket,id=paracuda0-socket,path=PATH
  -device vhost-user-fs-pci,id=paracuda0,bus=paracuda-port,chardev=paracuda0-socket,\
tag=paracuda,num-request-queues=16,queue-size=1024
It ends when the VM does, or on SIGTERM.`

func deviceCommand() *cobra.Command {
	o := deviceOptions{settings: settings.Default(), sandbox: true, keeper: on,
		given: map[string]bool{}, bounds: cgroup.Bounds{}}
	c := &cobra.Command{
		Use:   "device --socket-path PATH | --fd N [options]",
		Short: "serve the GPU to one VM over a vhost-user socket",
		Long:  deviceText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.config != "" {
				f := config{flags: c.Flags(), settings: &o.settings, given: o.given}
				if err := f.read(o.config); err != nil {
					return err
				}
			}
			if !c.Flags().Changed("keeper") {
				o.keeper = o.sandbox
			}
			return o.run()
		},
	}
	o.all(c)
	return c
}

// all adds every option of the command.
func (o *deviceOptions) all(c *cobra.Command) {
	o.options(c)
	o.configOption(c)
	o.logs.Add(c, "info")
	sharingFlags(c, &o.arbiter, &o.name, "that of the file of --config, or of the socket")
	gpuOption(c, &o.gpu)
	children.SandboxOption(c, &o.sandbox)
	o.keeperOptions(c)
	c.Flags().BoolVar(&o.replace, "replace", false, replaceHelp)
	cli.Complete(c, "set", typedSetting)
	cli.Complete(c, "socket-group", cli.Groups)
	cli.Complete(c, "cgroup", cli.Dirs)
	cli.Complete(c, "cgroup-set", bounds)
}

// options adds those that no other command has.
func (o *deviceOptions) options(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.socket, "socket-path", "", "listen on the UNIX socket `PATH`")
	f.IntVar(&o.fd, "fd", -1, "use the connected or listening socket inherited as descriptor `N`")
	f.Lookup("fd").DefValue = "0" // help doesn't show a 0
	f.Bool("print-capabilities", false,
		"print what the back end can do, as JSON, and exit, whatever else is asked for")
	f.StringVar(&o.control, "control", "",
		"answer paracuda set, stats, suspend, resume and precopy on the UNIX socket `PATH`")
	f.StringVar(&o.stats, "stats", "", "write counters to `FILE`, as JSON, at the end")
	f.StringVar(&o.trace, "trace", "", "write the vhost-user messages to `FILE`, as lines of hex")
	f.StringVar(&o.access.group, "socket-group", "",
		"let the members of `GROUP` connect to --socket-path, with --socket-mode 0660")
	f.Func("socket-mode", "give --socket-path the octal `MODE`", o.access.setMode)
	f.StringVar(&o.from, "from", "",
		"have a VM that was suspended to `FILE` go on from it when the VM has been migrated here")
	f.Func("pass-env", passEnvHelp, func(name string) error {
		o.passEnv = append(o.passEnv, name)
		return nil
	})
	f.StringVar(&o.cgroup, "cgroup", "",
		"move into the control group (version 2) that is the folder `DIR`, which may be new")
	f.Func("cgroup-set", "bound that group by `NAME=VALUE`: "+
		strings.Join(cgroup.Names(), ", ")+" (may be repeated)", o.bounds.Set)
	f.Func("set", "set a policy of the VM, as `KEY=VALUE` (see below; may be repeated)", o.set)
	f.Func("warm-workers",
		"keep `N` workers ready on each GPU for the programs to come: as --set warm-workers=N",
		func(n string) error { return o.set("warm-workers=" + n) })
}

// set takes a policy from the command line.
func (o *deviceOptions) set(text string) error {
	key, _, _ := strings.Cut(text, "=")
	o.given[key] = true
	return o.settings.Set(text)
}

func (o *deviceOptions) run() error {
	if o.replace {
		return replaceDevice(o.control)
	}
	if err := o.anew(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if err := o.takeActivated(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if (o.socket == "") == (o.fd < 0) {
		return cli.Usagef("device: want --socket-path PATH or --fd N")
	}
	if o.fd >= 0 && o.kept < 0 { // otherwise the keeper has it, or had it
		if _, err := unix.GetsockoptInt(o.fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
			return cli.Usagef("device: --fd %d: want an open socket that was inherited: %w", o.fd,
				err)
		}
	}
	if o.keeper == on && !bool(o.sandbox) {
		return cli.Usagef("device: --keeper on needs --sandbox on: " +
			"without it workers end with the " +
			"device process, and nothing tells when")
	}
	if len(o.bounds) > 0 && o.cgroup == "" {
		return cli.Usagef("device: --cgroup-set needs --cgroup DIR")
	}
	if o.isKeeper() {
		return o.keep()
	}
	if err := o.takeKept(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	return o.serve()
}

// isKeeper says whether this process is the keeper.
func (o *deviceOptions) isKeeper() bool { return o.keeper == on && o.kept < 0 }

// asksForCapabilities says whether --print-capabilities is there, which rules out all other options
// (QEMU, "Backend program conventions").
func asksForCapabilities(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--print-capabilities" || arg == "-print-capabilities"
	})
}

// printCapabilities follows the same conventions.
func printCapabilities(w io.Writer) error {
	return json.NewEncoder(w).Encode(map[string]any{"type": "gpu", "features": []string{}})
}

// writeStats writes the counters of the VM.
func (o *deviceOptions) writeStats(
	file *os.File, dev *device.Device, gpu string, log *logrus.Entry,
) error {
	if file == nil {
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
	if err := overwrite(file, append(b, '\n')); err != nil {
		return fmt.Errorf("--stats: %w", err)
	}
	return nil
}
