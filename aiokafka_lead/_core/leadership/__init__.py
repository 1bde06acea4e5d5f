"""The rules by which this client follows a partition's leader, and finds its cluster again.

They come from the accepted KIP-951 (leaders in Produce and Fetch answers) and KIP-899 (rebootstrap), and from the
experience of clients since their release; each names its source or its reason. Comments and tests refer to them by
number. A *hint* is a refusing broker's statement about the leader; a *move* is the change of a partition's leader.

This package has `hints` (reads hints from answers) and `patience` (delays of failed batches and fetches, doubt in
their leader, and durations of moves). ``_core/metadata`` decides how hints change the client's view of its cluster.

Hints
    1. A hint counts only with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH, from Produce 10 and Fetch 16 on, with a
        leader id and a leader epoch of at least 0. Brokers do send -1 for one of both. (KIP-951)
    2. A hint must be newer than the leader epoch that is known; Metadata counts at the same epoch, too. (Java)
    3. The leader's address is the one of that answer's NodeEndpoints, else the known one. Without either the hint is
        dropped, and the refresh is still asked for. (KIP-951)
    4. A hint about a partition that is unknown, unassigned or deleted is ignored. (Java)
    5. A hint belongs to the topic id that its request was sent for: a late one must not give the epochs of a deleted
        topic to the topic that has taken its name. (KIP-516; franz-go's bug)
    6. A hint is merged: every other topic and broker stays. A broker that was dropped and found again would get a
        second connection, which costs the order of records.
    7. A leader at the same address keeps its connection. At another address it gets a new one, and a connect to the
        old one that is under way must not finish.
    8. Each hint asks for a refresh of metadata as well, accepted or not. One wrong hint kept clients of franz-go away
        from the leader for minutes. (KIP-951: "expedited asynchronous metadata refresh")
    9. Addresses in hints can be wrong behind a proxy: ``leader_hint_policy`` says whether to use them. A frame's
        length is checked before memory is taken for it: a TLS alert read as a length asks for gigabytes.
    10. A hinted leader is pinned until metadata has reached its epoch: an answer from before neither drops it nor
        leaves the partition leaderless. Metadata that names another leader at the same epoch wins.

Producer
    11. A batch has one free retry for each advance of the leader epoch; a second failure at that epoch backs off. Its
        first attempt is no retry (Java: ProducerBatch). If the broker that refuses is itself the leader of the known
        epoch, it has only not caught up: that wait begins with at most 10 ms, and doubles.
    12. An epoch advance that Metadata tells of ends a backoff as a hint does; another leader at the same epoch does
        not.
    13. Without a hint that counts there is the normal backoff and a refresh. A broker that keeps refusing at one
        epoch sees a bounded rate of requests. (KIP-580)
    14. A batch is requeued in the order of sequences; only the next sequence is sent, and a batch that was sent never
        gets another sequence. (KIP-98)
    15. Nothing goes to the new leader while that partition's batches are in flight at the old one. Late answers of
        the old one count: success completes the batch, a retriable error requeues it at once. A broker that has much
        else to do gets one request at a time, so that a refused one holds up no other (`RequestWindow`).
    16. One partition's error holds back that partition, never the broker's others. (aiokafka's bug)
    17. A broker that leaves refuses its partitions one by one: one hint's refresh covers all of them, and connections
        to new leaders are opened ahead of the batches. Leaders are never guessed.
    18. What runs for each record reads an immutable snapshot.

Metadata
    19. An older epoch does not replace a leader; another topic id does, even with a lower epoch. Epoch -1 says
        nothing, and before Metadata 9 epochs are not reliable (KAFKA-9835). A partition whose epoch stays lower,
        after an unclean recovery, is believed after several answers.
    20. A partition whose leader is -1 is leaderless: metadata is refreshed with backoff until it has one. A move
        there and back lands where it began.
    21. Refreshes coalesce: whatever is asked for while one is under way causes at most one more.

Consumer
    22. Only the partition that failed moves, from the instant of the error, whatever is buffered: its preferred
        replica is cleared and its position checked against the leader epoch (KIP-320; from Fetch 12 on by the fetch
        itself). A leader that does not know the epoch has shown no loss: reading goes on. (Java resets the position)
    23. UNKNOWN_LEADER_EPOCH says that the broker is behind the client: a backoff, and no refresh while patience with
        it lasts (rule 33). (KIP-320)

Rebootstrap
    24. ``metadata_recovery_strategy="rebootstrap"`` (default): the client goes back to its bootstrap servers when no
        known broker is ready, connecting or connectable. A broker in reconnect backoff is unavailable, and so is one
        that has just refused a connection while another one is made; a busy one is not. (KIP-899)
    25. Backoffs survive a rebootstrap, each cycle is one line in the log, and names are resolved at every connect.
    26. After ``metadata_recovery_rebootstrap_trigger_ms`` without metadata since the first attempt, and at once with
        error REBOOTSTRAP_REQUIRED, the client goes back as well; under "none" that error is a failure with backoff.
        (KIP-1102)
    27. In these two cases every connection is closed, and what is in flight fails retriably. (KIP-1102)
    28. A metadata answer without brokers is no success.
    29. Batches and topics are kept: `send` does not block, and nothing is lost.
    30. Another cluster id than the known one is refused, by default: ``cluster_id_mismatch``. Epochs and topic ids
        mean nothing in another cluster. One address in another cluster does not prove that the client's own is gone:
        the error is raised, or the other cluster is adopted, once all bootstrap servers, at all their addresses, lead
        there; those that cannot be reached are waited for as long as patience lasts (rule 33).
        A bootstrap server is asked for metadata only. (KIP-899)
    31. The admin client goes back, too. (KIP-1102)

Patience
    32. What waits, waits for one reason, and another reason does not wait for it. Each reason for a refresh has a
        spacing of its own: a broker that is lost after a burst of moves is asked about at once, however often hints
        have asked before; a refresh that confirms a hint is news; a broker that is lost and still leads in the view
        is asked about until it does not, whether records are due or in backoff, but no longer than for
        ``request_timeout_ms`` after the last failure to reach it. What an election ends, a lost broker that leads or a
        partition without leader, is asked about every ``retry_backoff_ms`` for half a minute, for a cluster takes
        seconds to elect. Look-ups of a coordinator begin with 10 ms and do not wait for a connection to a broker that
        is gone, and an advance of the leader epoch ends the waits of the consumer's queries of offsets.

Doubt
    33. A broker that answers may be wrong: it lags, is cut off from the others, or is sick. Patience with it is bounded
        (``_core/trust``): after 3 refusals in a row, or ``2 * retry_backoff_max_ms`` after the first was asked for, it
        is in doubt, and another broker is asked. For a leader that is metadata, from the brokers in turn, connected or
        not, the one in doubt last; the same holds for a broker that has no brokers to name, does not answer, or denies
        a topic. Each further refusal asks the next one, spaced as rule 32 has it, and the first success ends the doubt.
        A coordinator is looked up after each refusal; one that does not say that it has moved is asked about itself
        last.
        If all known brokers answer in vain, three times or, when they name no leader, for ``retry_backoff_max_ms``,
        bootstrap servers at other addresses are asked beside them, unless the strategy is "none": no broker's
        connection ends, nothing is forgotten, and no topic is denied by them, since they may be the known brokers. One
        that knows no more is connected to again after a while, since its name may lead to another broker. (KIP-1102
        waits for ``metadata_recovery_rebootstrap_trigger_ms``, and then drops both.)
        A broker that was in doubt, or out of reach, when an answer moved it to another address does not go back to the
        former one, which some brokers may repeat, while it works at the new one.
        If no other broker is known, and none has a replica, nothing more is asked. UNKNOWN_SERVER_ERROR, after which
        Java gives records up, is tried again by an idempotent producer until the leader is in doubt, and as often
        again. (KIP-951 and KIP-899 bound two cases of this: leaders that moved, and brokers that are all gone.)
    34. A preferred replica that cannot be connected to within half a second, holds a fetch ``retry_backoff_max_ms``
        beyond its time, or is in doubt, gives its partitions back to their leader, and is read from again once it has
        been reached, or after ``metadata_max_age_ms``. Until then a leader that names it is fetched from without a
        rack: it has no records for a client that it sends elsewhere. (KIP-392)

Addresses
    35. A connection to a known broker says which broker of which cluster it is for, and one that was led to another is
        refused before anything is sent on it: ``metadata_cluster_check_enable``, with brokers from Kafka 4.4 on. The
        client then goes back to its bootstrap servers, once until that address has led to its broker again, and keeps
        its connections to others; after that it tries the address with a backoff, and asks for metadata. Not under
        the strategy "none". (KIP-1242)
        Older brokers cannot refuse: they are asked for their cluster. (Java does not) Without the check this is done
        for an address that has answered Metadata for another cluster. A member of a group may have joined there: it
        sends all fields to the coordinator behind each new connection, and while it does not know the topics that it
        was assigned, so that its target is repeated.
"""
