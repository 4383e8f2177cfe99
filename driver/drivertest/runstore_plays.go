package drivertest

import (
	"time"

	"github.com/farsync/farsync/driver"
)

const playQueue = "/q"

// work is how long a hold is used.
const work = 200 * time.Millisecond

var plays = []play{
	{"Mutex", []func(*actor) error{
		func(a *actor) error { return a.twice(a.request(driver.Exclusive, 1, 0), 1) },
		func(a *actor) error { return a.twice(a.request(driver.Exclusive, 1, 0), 1) },
		func(a *actor) error { return a.tries(a.request(driver.Exclusive, 1, 0)) },
	}},
	{"LongHold", []func(*actor) error{
		func(a *actor) error { return a.works(a.request(driver.Exclusive, 1, 0), playTTL*3/2, 1) },
		func(a *actor) error { return a.works(a.request(driver.Exclusive, 1, 0), playTTL*3/2, 1) },
		func(a *actor) error { return a.works(a.request(driver.Exclusive, 1, 0), 0, 1) },
	}},
	{"Gate", []func(*actor) error{
		func(a *actor) error { return a.turns(3) },
		func(a *actor) error { return a.turns(2) },
	}},
	{"Line", []func(*actor) error{
		func(a *actor) error { return a.once(a.request(driver.Exclusive, 1, 0), 1) },
		func(a *actor) error { return a.lines() },
		func(a *actor) error { return a.turns(2) },
	}},
	{"ReadersAndWriters", []func(*actor) error{
		func(a *actor) error { return a.twice(a.request(driver.Write, 1, 0), 1) },
		func(a *actor) error { return a.twice(a.request(driver.Read, 1, 0), 2) },
		func(a *actor) error { return a.twice(a.request(driver.Read, 1, 0), 2) },
	}},
	{"Downgrade", []func(*actor) error{
		func(a *actor) error { return a.downgrades() },
		func(a *actor) error { return a.twice(a.request(driver.Read, 1, 0), 2) },
		func(a *actor) error { return a.twice(a.request(driver.Write, 1, 0), 1) },
	}},
	{"Semaphore", []func(*actor) error{
		func(a *actor) error { return a.twice(a.request(driver.Permit, 2, 3), 3) },
		func(a *actor) error { return a.twice(a.request(driver.Permit, 1, 3), 3) },
		func(a *actor) error { return a.twice(a.request(driver.Permit, 3, 3), 1) },
	}},
	{"Resize", []func(*actor) error{
		func(a *actor) error { return a.twice(a.request(driver.Permit, 2, 2), 2) },
		func(a *actor) error { return a.twice(a.request(driver.Permit, 2, 2), 2) },
		func(a *actor) error { return a.resizes(2, 4) },
	}},
	{"ResizeByAnotherSize", []func(*actor) error{
		func(a *actor) error { return a.together(a.holdsAUnit, a.waitsForAUnit) },
		func(a *actor) error { return a.together(a.triesUnits, a.breaksAUnit) },
		func(a *actor) error { return a.resizesForOthers() },
	}},
	{"DeclareAnew", []func(*actor) error{
		func(a *actor) error { return a.declares(2, 0) },
		func(a *actor) error { return a.declares(3, time.Second) },
		func(a *actor) error { return a.declares(3, time.Second) },
	}},
	{"Election", []func(*actor) error{
		func(a *actor) error { return a.leads() },
		func(a *actor) error { return a.leads() },
		func(a *actor) error { return a.observes() },
	}},
	{"Ask", []func(*actor) error{
		func(a *actor) error { return a.yields() },
		func(a *actor) error { return a.asks() },
	}},
	{"Break", []func(*actor) error{
		func(a *actor) error { return a.handsOn() },
		func(a *actor) error { return a.breaks(0) },
		func(a *actor) error { return a.breaks(1) },
	}},
	{"BreakOfATurnThatIsOver", []func(*actor) error{
		func(a *actor) error { return a.handsOn() },
		func(a *actor) error { return a.breaks(0) },
	}},
	{"GiveUp", []func(*actor) error{
		func(a *actor) error { return a.twice(a.request(driver.Exclusive, 1, 0), 1) },
		func(a *actor) error { return a.givesUp(a.request(driver.Exclusive, 1, 0)) },
		func(a *actor) error { return a.twice(a.request(driver.Exclusive, 1, 0), 1) },
	}},
	{"GiveUpTrying", []func(*actor) error{
		func(a *actor) error { return a.once(a.request(driver.Exclusive, 1, 0), 1) },
		func(a *actor) error { return a.givesUp(trying(a.request(driver.Exclusive, 1, 0))) },
	}},
	{"GiveUpUnits", []func(*actor) error{
		func(a *actor) error { return a.twice(a.request(driver.Permit, 2, 2), 1) },
		func(a *actor) error { return a.givesUp(a.request(driver.Permit, 2, 2)) },
		func(a *actor) error { return a.twice(a.request(driver.Permit, 2, 2), 1) },
	}},
	{"Close", []func(*actor) error{
		func(a *actor) error { return a.closes(0) },
		func(a *actor) error { return a.closes(work / 2) },
		func(a *actor) error { return a.twice(a.request(driver.Exclusive, 1, 0), 1) },
	}},
}

// dear are the plays that take long: of the placements in them RunStore tries one in so many.
var dear = map[string]int{"ResizeByAnotherSize": 8}
