// SPDX-License-Identifier: Apache-2.0

// Package precopy has the command that connects two device processes, of a VM that is going to be
// migrated and of where it goes, so that its device memory can go ahead.
//
//	precopy.go  the command
//	secure.go   TLS between the hosts
//	relay.go    what passes between that and the device process
//
// # Who owns what
//
// This process has the network, the certificates and their keys. A device process has none of that,
// and couldn't: it faces a guest, and its sandbox has no network. It gets one end of a socket, and
// this process passes on what comes on either side.
//
// # Who may lie
//
// Whoever connects: without a certificate of the same authority nothing that they send gets to a
// device process, and it is bounded how many may try at a time, and for how long. The other host's
// device process, which its guest may have taken over: package precopy of gpubackend checks what it
// says.
package precopy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

const text = `Sends a VM's device memory ahead of its migration, while the VM runs: from the device
process on this host to that on the other one. Start it on both hosts, with --migrate-from first.
Then only what has changed since goes with the VM, while it is stopped. SOCKET is the device's
control socket. The command says when all has been copied once: then migrate the VM. It goes on
copying what changes, and ends when the VM has been sent. For another migration it has to be given
again. If it fails, or isn't given at all, all memory goes with the VM.
The folder of --tls-dir has the files that QEMU and libvirt use for migration: ca-cert.pem, on the
source client-cert.pem and client-key.pem, on the destination server-cert.pem and server-key.pem.
Each side must have a certificate of that authority.`

// DefaultDir is where libvirt has QEMU's certificates.
const DefaultDir = "/etc/pki/qemu"

// options are the flags of the command.
type options struct{ to, from, dir, host string }

// Command is `paracuda precopy`.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "precopy {--migrate-to HOST:PORT | --migrate-from ADDRESS:PORT} [options] SOCKET",
		Short: "send a VM's device memory ahead of its migration",
		Long:  text,
		Args:  cli.TakesSocket, DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	f := c.Flags()
	f.StringVar(&o.to, "migrate-to", "", "send device memory to `HOST:PORT`")
	f.StringVar(&o.from, "migrate-from", "",
		"wait at `ADDRESS:PORT` for device memory that comes (\":PORT\": at all addresses)")
	f.StringVar(&o.dir, "tls-dir", DefaultDir, "take certificates and keys from `DIR`")
	f.StringVar(&o.host, "tls-hostname", "",
		"with --migrate-to: `NAME` that the destination's certificate must have (default: HOST)")
	cli.Complete(c, "tls-dir", cli.Dirs)
	return c
}

func (o *options) run(control string) error {
	if (o.to == "") == (o.from == "") {
		return cli.Usagef("precopy: want --migrate-to HOST:PORT or --migrate-from ADDRESS:PORT")
	}
	if o.from != "" && o.host != "" {
		return cli.Usagef("precopy: --tls-hostname is for --migrate-to")
	}
	run := o.send
	if o.from != "" {
		run = o.receive
	}
	if err := run(control); err != nil {
		return fmt.Errorf("precopy: %w", err)
	}
	return nil
}

// send sends memory to another host.
func (o *options) send(control string) error {
	host, _, err := net.SplitHostPort(o.to)
	if err != nil {
		return cli.Usagef("--migrate-to: %w", err)
	}
	if o.host != "" {
		host = o.host
	}
	c, err := folder(o.dir).client(host)
	if err != nil {
		return err
	}
	conn, err := dial(context.Background(), o.to, c)
	if err != nil {
		return fmt.Errorf("%w: all device memory will be migrated with the VM", err)
	}
	whole := false
	a, err := hand(conn, control, admin.To, func(p suspend.Progress) {
		if p.All > 0 && !whole {
			whole = true
			fmt.Fprintf(cli.Stdout, "a first copy is there, of %d bytes: migrate the VM\n", p.Done)
		}
	})
	if err != nil {
		return fmt.Errorf("%w: all device memory will be migrated with the VM", err)
	}
	fmt.Fprintf(cli.Stdout, "the VM has been sent: %d bytes went ahead, in %v\n", a.Moved.Bytes,
		a.Moved.Took.Round(time.Millisecond))
	return nil
}

// receive takes what another host sends.
func (o *options) receive(control string) error {
	c, err := folder(o.dir).server()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.from)
	if err != nil {
		return fmt.Errorf("--migrate-from: %w", err)
	}
	fmt.Fprintf(cli.Stdout, "waits at %s\n", l.Addr())
	conn, err := accept(l, c, func(err error) {
		fmt.Fprintf(cli.Stdout, "refused: %v\n", err)
	})
	if err != nil {
		return err
	}
	a, err := hand(conn, control, admin.From, func(suspend.Progress) {})
	if err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "device memory is there: %d bytes, in %v\n", a.Moved.Bytes,
		a.Moved.Took.Round(time.Millisecond))
	return nil
}

// hand gives the device process a connection to the other host, and waits until it no longer needs
// it.
func hand(
	conn *tls.Conn, control string, d admin.Direction, tell func(suspend.Progress),
) (*admin.Answer, error) {
	r, err := relay(conn)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	defer r.end()
	a, err := admin.AskToPrecopy(control, d, r.far, tell)
	switch {
	case err != nil:
		return nil, err
	case a.Moved == nil:
		return nil, fmt.Errorf("the device process at %s is of another version: "+
			"paracuda device --replace --control %[1]s", control)
	}
	return a, nil
}
