package main

import "slices"

// The bodies of scenes.
const (
	contended  = "contended"  // n contenders, each in a session of its own; with one of them the lock is free
	goroutines = "goroutines" // n goroutines of one process
	semaphore  = "semaphore"  // n contenders for 8 units
	readers    = "readers"    // n contenders, and a tenth of them writes
	guarded    = "guarded"    // a free lock, and a write under it
	queue      = "queue"      // joining a queue in which n wait, and leaving it
)

// crowd is how many contend where many do.
const crowd = 64

// plan returns all scenes. Scenes of one site follow one another.
func plan() []scene {
	return slices.Concat(etcdScenes(), zkScenes(), redisScenes(), postgresScenes(), mysqlScenes(), sqliteScenes())
}

// lengths are how many wait in the queues that an entry joins.
var lengths = []int{10, 100, 1_000, 5_000}

// at returns a scene for each number of contenders.
func at(s scene, numbers ...int) (list []scene) {
	for _, n := range numbers {
		s.n = n
		list = append(list, s)
	}
	return list
}

// behind returns a scene for each length of the queue.
func behind(s scene) (list []scene) {
	for _, n := range lengths {
		s.body, s.n, s.waiting = queue, n, n
		list = append(list, s)
	}
	return list
}

func etcdScenes() (list []scene) {
	s := scene{store: onEtcd}
	of := func(body, setting string, peers ...peer) scene {
		s := s
		s.body, s.setting, s.peers = body, setting, peers
		return s
	}
	free := []peer{etcdStore.mutexes(), etcdMutexes, etcdPairs("")}
	many := []peer{etcdStore.mutexes(), etcdMutexes, etcdFloor}
	return slices.Concat(
		at(of(contended, "", free...), 1),
		at(of(contended, "", append(many, etcdHerd)...), 2, 8, 64),
		at(of(contended, "", many...), 256),
		at(of(contended, "", etcdStore.mutexes(), etcdMutexes), 1_000),
		at(of(goroutines, "", etcdStore.shared(), etcdGoroutines), crowd),
		at(of(semaphore, "", etcdStore.permits()), crowd),
		at(of(readers, "", etcdStore.readers(), etcdReaders), crowd),
		at(of(guarded, "", etcdStore.guarded(etcdGuard), etcdOwner), 1),
		behind(of(queue, "", etcdStore.joins(), etcdTries, etcdPairs(longQueue))),
		at(of(contended, faraway, free...), 1),
		at(of(contended, faraway, many...), 2, 8, 64),
		at(of(contended, onDisk, free...), 1),
		at(of(contended, onDisk, many...), 8, 64),
		at(of(contended, ofThree, free...), 1),
		at(of(contended, ofThree, many...), 8, 64),
	)
}

func zkScenes() (list []scene) {
	of := func(body, setting string, peers ...peer) scene {
		return scene{store: onZooKeeper, body: body, setting: setting, peers: peers}
	}
	mutex := curators("Curator, a client each", "each", "mutex")
	free := []peer{zkStore.mutexes(), zkLocks, mutex, zkPairs}
	many := []peer{zkStore.mutexes(), zkLocks, mutex, zkFloor}
	return slices.Concat(
		at(of(contended, "", free...), 1),
		at(of(contended, "", append(many, zkHerd)...), 2, 8, 64),
		at(of(contended, "", zkStore.mutexes(), zkLocks, zkFloor), 256),
		at(of(goroutines, "", zkStore.shared(), zkGoroutines, curators("Curator, one client", "shared", "mutex")), crowd),
		at(of(semaphore, "", zkStore.permits(), curators("Curator's SemaphoreV2", "each", "semaphore")), crowd),
		at(of(readers, "", zkStore.readers(), curators("Curator's ReadWriteLock", "each", "readers")), crowd),
		at(of(guarded, "", zkStore.guarded(zkGuard), zkUnguarded), 1),
		behind(of(queue, "", zkStore.joins(), zkJoins)),
		at(of(contended, faraway, zkStore.mutexes(), zkLocks, zkPairs), 1),
		at(of(contended, faraway, zkStore.mutexes(), zkLocks, zkFloor), 2, 8, 64),
		at(of(contended, onDisk, zkStore.mutexes(), zkLocks, zkPairs), 1),
		at(of(contended, onDisk, zkStore.mutexes(), zkLocks, zkFloor), 8, 64),
		at(of(contended, ofThree, zkStore.mutexes(), zkLocks, zkPairs), 1),
		at(of(contended, ofThree, zkStore.mutexes(), zkLocks, zkFloor), 8, 64),
	)
}

func redisScenes() (list []scene) {
	of := func(body, setting string, peers ...peer) scene {
		return scene{store: onRedis, body: body, setting: setting, peers: peers, inTurn: body == contended}
	}
	three, one := rueidisLocks("rueidislock, three keys", 0, false), rueidisLocks("rueidislock, one key", 1, false)
	return slices.Concat(
		at(of(contended, "", redisStore.mutexes(), three, one, redsyncs, redislocks, redisPairs), 1),
		at(of(contended, "", redisStore.mutexes(), three, one, redsyncs, redislocks), 2, 8, 64),
		at(of(goroutines, "", redisStore.shared(), rueidisLocks("rueidislock, one Locker", 0, true)), crowd),
		at(of(semaphore, "", redisStore.permits()), crowd),
		at(of(readers, "", redisStore.readers()), crowd),
		at(of(guarded, "", redisStore.guarded(redisGuard), three), 1),
		behind(of(queue, "", redisStore.joins())),
		at(of(contended, onDisk, redisStore.mutexes(), three, redisPairs), 1),
		at(of(contended, onDisk, redisStore.mutexes(), three), 64),
	)
}

func postgresScenes() (list []scene) {
	of := func(body, setting string, peers ...peer) scene {
		return scene{store: onPostgres, body: body, setting: setting, peers: peers, inTurn: body == contended}
	}
	many := []peer{postgresStore.mutexes(), advisoryLocks, postgresRows, postgresExpiries}
	return slices.Concat(
		at(of(contended, "", append(slices.Clone(many), postgresPairs)...), 1),
		at(of(contended, "", many...), 2, 8, 64),
		at(of(contended, withFew, postgresStore.mutexes(), postgresStore.fewer()), crowd),
		at(of(contended, besideIdle, postgresStore.mutexes(), postgresStore.fewer()), crowd),
		at(of(goroutines, "", postgresStore.shared(), advisoryLocks), crowd),
		at(of(semaphore, "", postgresStore.permits()), crowd),
		at(of(readers, "", postgresStore.readers()), crowd),
		at(of(guarded, "", postgresStore.guarded(postgresGuard), advisoryUnguarded), 1),
		behind(of(queue, "", postgresStore.joins())),
		at(of(contended, onDisk, postgresStore.mutexes(), advisoryLocks, postgresRows, postgresExpiries, postgresPairs), 1),
	)
}

func mysqlScenes() (list []scene) {
	of := func(body, setting string, peers ...peer) scene {
		return scene{store: onMySQL, body: body, setting: setting, peers: peers, inTurn: body == contended}
	}
	many := []peer{mysqlStore.mutexes(), mysqlLocks, mysqlRows, mysqlExpiries}
	return slices.Concat(
		at(of(contended, "", append(slices.Clone(many), mysqlPairs)...), 1),
		at(of(contended, "", many...), 2, 8, 64),
		at(of(contended, withFew, mysqlStore.mutexes(), mysqlStore.fewer()), crowd),
		at(of(contended, besideIdle, mysqlStore.mutexes(), mysqlStore.fewer()), crowd),
		at(of(goroutines, "", mysqlStore.shared(), mysqlLocks), crowd),
		at(of(semaphore, "", mysqlStore.permits()), crowd),
		at(of(readers, "", mysqlStore.readers()), crowd),
		at(of(guarded, "", mysqlStore.guarded(mysqlGuard), mysqlUnguarded), 1),
		behind(of(queue, "", mysqlStore.joins())),
		at(of(contended, onDisk, mysqlStore.mutexes(), mysqlLocks, mysqlRows, mysqlExpiries, mysqlPairs), 1),
	)
}

func sqliteScenes() (list []scene) {
	of := func(body, setting string, peers ...peer) scene {
		return scene{store: onSQLite, body: body, setting: setting, peers: peers}
	}
	return slices.Concat(
		at(of(contended, "", sqliteStore.mutexes(), sqlitePairs), 1),
		at(of(contended, "", sqliteStore.mutexes()), 2, 8, 64),
		at(of(goroutines, "", sqliteStore.shared()), crowd),
		at(of(semaphore, "", sqliteStore.permits()), crowd),
		at(of(readers, "", sqliteStore.readers()), crowd),
		at(of(guarded, "", sqliteStore.guarded(sqliteGuard)), 1),
		behind(of(queue, "", sqliteStore.joins())),
	)
}
