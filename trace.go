package farsync

import "github.com/farsync/farsync/recipe"

// A Trace is told what the primitives of a Store do, for metrics, traces and pages: see the option Trace. Its functions are Acquire,
// Wait, Ended, Session and Note: see [recipe.Trace]. Each may be nil. They are called while others wait for them, and must return
// soon and not panic.
type Trace = recipe.Trace

// What a Trace is told. Package recipe has the fields.
type (
	// A Want is what a call asks for.
	Want = recipe.Want
	// A Got is how a call has ended.
	Got = recipe.Got
	// A Behind is what a call waits behind.
	Behind = recipe.Behind
	// An End is how something that was acquired has ended.
	End = recipe.End
	// A Health is how the session of a Store stands.
	Health = recipe.Health
)

// Traces returns a Trace that tells all of them, in that order. Nil ones are left out. Of their notes the first that is not
// empty is published.
func Traces(list ...*Trace) *Trace { return recipe.Traces(list...) }
