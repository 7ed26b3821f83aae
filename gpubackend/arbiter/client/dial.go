// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// HostPath is where the host's arbiter listens, the one that root has started.
const HostPath = "/run/paracuda/arbiter.sock"

// ownUser is this process's user, read while system calls aren't filtered yet.
var ownUser = os.Getuid()

// ErrNone says that there is no arbiter.
var ErrNone = errors.New("start one with paracuda arbiter")

// DefaultPath is where an arbiter listens: the host's, or a user's own.
func DefaultPath() string {
	if ownUser == 0 {
		return HostPath
	}
	return ownPath()
}

func ownPath() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "paracuda", "arbiter.sock")
	}
	return fmt.Sprintf("/tmp/paracuda-%d/arbiter.sock", ownUser)
}

// Dial connects to the arbiter at a path; "" is the host's, or else the user's own. At these paths,
// another user's arbiter is refused.
func Dial(path string) (*link.Conn, error) { return connector(nil).dialAny(path) }

// Paths are the paths that Dial tries.
func Paths(path string) []string {
	switch {
	case path != "":
		return []string{path}
	case ownUser == 0:
		return []string{HostPath}
	}
	return []string{HostPath, ownPath()}
}

// connector connects to a socket of link.Network; nil is the usual way.
type connector func(path string) (link.Socket, error)

func (f connector) dialAny(path string) (c *link.Conn, err error) {
	if path != "" {
		return f.dial(path)
	}
	for _, path := range Paths("") {
		if c, err = f.dialTrusted(path); !errors.Is(err, ErrNone) {
			break
		}
	}
	return c, err
}

func (f connector) dialTrusted(path string) (*link.Conn, error) {
	c, err := f.dial(path)
	if err != nil {
		return nil, err
	}
	user, err := c.User()
	if err == nil && user != 0 && int(user) != ownUser {
		err = fmt.Errorf("the arbiter at %s is of user %d, neither root's nor yours: "+
			"name it with --arbiter if you trust it", path, user)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (f connector) connect(path string) (*link.Conn, error) {
	if f == nil {
		return link.Dial(path, answerTimeout)
	}
	c, err := f(path)
	if err != nil {
		return nil, err
	}
	return link.New(c), nil
}

func (f connector) dial(path string) (*link.Conn, error) {
	c, err := f.connect(path)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("no arbiter answers at %s: %w", path, ErrNone)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("no permission for the arbiter's socket %s: run this as root, "+
			"or as a member of the socket's group", path)
	case errors.Is(err, unix.EPROTOTYPE):
		return nil, fmt.Errorf("the socket %s is another program's: "+
			"give that of paracuda arbiter", path)
	}
	return nil, fmt.Errorf("connect to the arbiter at %s: %w", path, err)
}

// List asks the arbiter at a path for its VMs.
func List(path string) (vms []link.VM, err error) {
	c, err := ask(path, &link.Request{Version: link.Version, Kind: link.List})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for {
		a, err := receive(c)
		if err != nil {
			return nil, err
		}
		if vms = append(vms, a.VMs...); !a.More {
			return vms, nil
		}
	}
}

// SetPolicy changes the policy of a VM at the arbiter at a path.
func SetPolicy(path, name string, settings map[string]string) error {
	r := &link.Request{Version: link.Version, Kind: link.Set, Name: name, Policy: settings}
	c, err := ask(path, r)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = receive(c)
	return err
}

// ask sends a command's request.
func ask(path string, r *link.Request) (*link.Conn, error) {
	c, err := Dial(path)
	if err != nil {
		return nil, err
	}
	c.Deadline(time.Now().Add(answerTimeout))
	if err := c.Send(r); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// receive takes an answer to a command.
func receive(c *link.Conn) (*link.Answer, error) {
	var a link.Answer
	if _, err := c.Receive(&a, 0); err != nil {
		return nil, fmt.Errorf("the arbiter doesn't answer: is it stopped? %w", err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return &a, check(&a)
}
