// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
)

// Context is the record of a context of the driver.
type Context struct {
	Handle gpubackend.Context
	GPU    int
	Base   *Context // of a green context: the primary one, whose memory and modules it shares
	Work   activity.Activity

	primary  bool              // its record stays: the driver makes it again under the same handle
	retained int               // references to a primary context
	dead     gpubackend.Result // the error that ended it
	counts   uint64            // as so much memory
}

// Home is the context that owns what is made in c.
func (c *Context) Home() *Context {
	if c.Base != nil {
		return c.Base
	}
	return c
}

// Exists says whether c is more than the record of a primary context.
func (c *Context) Exists() bool { return !c.Home().primary || c.Home().retained > 0 }

// Dead is the error that ended the context; Success for none.
func (c *Context) Dead() gpubackend.Result { return c.Home().dead }
