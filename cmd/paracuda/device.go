// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device"
)

// deviceOptions are the flags of `paracuda device`.
type deviceOptions struct {
	socket, gpu, stats, trace, control string
	arbiter, name                      string
	logs                               logFlags
	fd                                 int
	access                             access            // to socket
	controlSocket                      *net.UnixListener // inherited, instead of control
	sandbox                            sandboxFlag
	passEnv                            []string
	settings                           device.Settings
}

func runDevice(args []string) error {
	if slices.ContainsFunc(args, asksForCapabilities) {
		return printCapabilities(stdout)
	}
	o := deviceOptions{settings: device.DefaultSettings(), sandbox: true}
	f := newFlags("device", "--socket-path PATH | --fd N [options]",
		"Serves the GPU to one VM. QEMU connects with\n"+
			"  -device pcie-root-port,id=paracuda-port,chassis=9 -chardev socket,id=paracuda0-socket,path=PATH\n"+
			"  -device vhost-user-fs-pci,id=paracuda0,bus=paracuda-port,chardev=paracuda0-socket,\\\n"+
			"tag=paracuda,num-request-queues=16,queue-size=1024\n"+
			"It ends when the VM does, or on SIGTERM.")
	f.StringVar(&o.socket, "socket-path", "", "listen on the UNIX socket `PATH`")
	f.IntVar(&o.fd, "fd", -1, "use the connected or listening socket inherited as descriptor `N`")
	f.Bool("print-capabilities", false,
		"print what the back end can do, as JSON, and exit, whatever else is asked for")
	f.StringVar(&o.gpu, "gpu", gpuAuto, gpuHelp)
	f.StringVar(&o.control, "control", "",
		"answer paracuda set and paracuda stats on the UNIX socket `PATH`")
	sharingFlags(f, &o.arbiter, &o.name, "the socket's name")
	f.StringVar(&o.stats, "stats", "", "write counters to `FILE`, as JSON, at the end")
	o.logs.add(f, "info")
	f.StringVar(&o.trace, "trace", "", "write the vhost-user messages to `FILE`, as lines of hex")
	f.StringVar(&o.access.group, "socket-group", "",
		"let the members of `GROUP` connect to --socket-path, with --socket-mode 0660")
	f.Func("socket-mode", "give --socket-path the octal `MODE`", o.access.setMode)
	f.Var(&o.sandbox, "sandbox", sandboxHelp)
	f.Func("pass-env", passEnvHelp, func(name string) error {
		o.passEnv = append(o.passEnv, name)
		return nil
	})
	f.Func("set", "`KEY=VALUE`: set a policy of the VM (see below; may be repeated)",
		o.settings.Set)
	f.Func("warm-workers",
		"keep `N` workers ready for the programs to come: as --set warm-workers=N",
		func(n string) error {
			return o.settings.Set("warm-workers=" + n)
		})
	usage := f.Usage
	f.Usage = func() {
		usage()
		fmt.Fprintln(stdout, "\nKeys for --set:")
		device.PrintSettings(stdout)
	}
	if err := parse(f, args); err != nil {
		return err
	}
	if err := o.takeActivated(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if (o.socket == "") == (o.fd < 0) {
		return errors.New("device: want --socket-path PATH or --fd N")
	}
	return o.serve()
}

// asksForCapabilities says whether an argument is the option that rules out all others (QEMU,
// "Backend program conventions").
func asksForCapabilities(arg string) bool {
	return arg == "--print-capabilities" || arg == "-print-capabilities"
}

// printCapabilities follows the same conventions.
func printCapabilities(w io.Writer) error {
	return json.NewEncoder(w).Encode(map[string]any{"type": "gpu", "features": []string{}})
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
	if err := os.WriteFile(o.stats, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("--stats: %w", err)
	}
	return nil
}
