//! What must be found however it is written, and what must never be taken for it.

use danmaku_words::{ListOptions, Profile, Screen, Verdict, Watch, WordList};

/// A list as a moderator would write it; every line drops.
const LIST: &str = "\
fuck\nshit\nass\ncunt\nhell\ndick\nsex\nbitch\npenis\nscum\nslut\nkill yourself\nnigger\nporn\n\
法轮功\n操你妈\n傻逼\n习近平\n赌博\n裸聊\n代开发票\n六四\n8964\nsb\n加薇聊\n\
хуй\nсука\nばか\n시발\nควาย\nكلب\nहरामी\nmalaka\n*tard\n";

fn found(list: &WordList, text: &str) -> Option<String> {
    let mut screen = Screen::default();
    match screen.screen(text, &[Watch::enforce(list)]).expect("short enough") {
        Verdict::Drop(hit) => list.rule(hit.rule).map(|rule| rule.word.to_owned()),
        Verdict::Pass => None,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn compile(text: &str) -> WordList {
    WordList::compile(&ListOptions::default(), text).expect("a list")
}

/// `Screen::screen`, strict profile: text and the word behind it.
const DISGUISES: &[(&str, &str)] = &[
    // As it stands, in any case, with anything beside it.
    ("what the fuck", "fuck"),
    ("FUCK you", "fuck"),
    ("FuCk", "fuck"),
    ("你fuck他", "fuck"),
    ("fuck123", "fuck"),
    ("shit!", "shit"),
    ("\"shit\"", "shit"),
    ("shit's", "shit"),
    ("mother-fuck", "fuck"),
    ("libtard", "*tard"),
    // Width, letters in circles and boxes, mathematical alphabets, small capitals.
    ("ｆｕｃｋ", "fuck"),
    ("ＦＵＣＫ", "fuck"),
    ("ⓕⓤⓒⓚ", "fuck"),
    ("🅕🅤🅒🅚", "fuck"),
    ("🅵🆄🅲🅺", "fuck"),
    ("🄵🅄🄲🄺", "fuck"),
    ("𝐟𝐮𝐜𝐤", "fuck"),
    ("𝓯𝓾𝓬𝓴", "fuck"),
    ("𝔣𝔲𝔠𝔨", "fuck"),
    ("ꜰᴜᴄᴋ", "fuck"),
    ("🇫🇺🇨🇰", "fuck"),
    ("⒡⒰⒞⒦", "fuck"),
    ("ꜱʜɪᴛ", "shit"),
    ("ﬆ ſhit", "shit"),
    // Nothing that can be seen.
    ("f\u{200b}u\u{200b}c\u{200b}k", "fuck"),
    ("f\u{200d}u\u{2060}c\u{feff}k", "fuck"),
    ("\u{202e}fu\u{202c}ck", "fuck"),
    ("f\u{ad}u\u{34f}ck", "fuck"),
    ("fu\u{fe0f}ck", "fuck"),
    ("fuck\u{e0000}\u{e0041}", "fuck"),
    ("法\u{200b}轮\u{200b}功", "法轮功"),
    ("法\u{3164}轮功", "法轮功"),
    // Separators.
    ("f.u.c.k", "fuck"),
    ("f u c k", "fuck"),
    ("f-u-c-k you", "fuck"),
    ("f_u_c_k", "fuck"),
    ("fu*ck", "fuck"),
    ("f~u~c~k", "fuck"),
    ("f☆u☆c☆k", "fuck"),
    ("f🔥u🔥c🔥k", "fuck"),
    ("f, u, c, k", "fuck"),
    ("I f u c k u", "fuck"),
    ("a s s", "ass"),
    ("法 轮 功", "法轮功"),
    ("法轮 功", "法轮功"),
    ("法.轮.功", "法轮功"),
    ("法。轮。功", "法轮功"),
    ("法*轮*功好", "法轮功"),
    ("法|轮|功", "法轮功"),
    ("法🌸轮🌸功", "法轮功"),
    ("傻-逼", "傻逼"),
    ("傻 逼", "傻逼"),
    ("你 s b", "sb"),
    ("8 9 6 4", "8964"),
    ("8-9-6-4", "8964"),
    ("killyourself", "kill yourself"),
    ("kill  yourself", "kill yourself"),
    ("k i l l y o u r s e l f", "kill yourself"),
    ("kkkill yourself", "kill yourself"),
    // Letters that look like them.
    ("fuсk", "fuck"),
    ("ѕhit", "shit"),
    ("you аѕѕ", "ass"),
    ("реnis", "penis"),
    ("ѕex", "sex"),
    ("dιck", "dick"),
    ("hεll", "hell"),
    ("pοrn", "porn"),
    ("sh1t", "shit"),
    ("sh!t", "shit"),
    ("a$$", "ass"),
    ("@ss", "ass"),
    ("b1tch", "bitch"),
    ("5hit", "shit"),
    ("p0rn", "porn"),
    ("d|ck", "dick"),
    ("s1ut", "slut"),
    ("s|ut", "slut"),
    ("5ⅼut", "slut"),
    ("fυck", "fuck"),
    // Repeats.
    ("fuuuuck", "fuck"),
    ("fffuuuccckkk", "fuck"),
    ("ffuucckk", "fuck"),
    ("shiiiit", "shit"),
    ("asssss", "ass"),
    ("f u u u u c k", "fuck"),
    ("heeellllll", "hell"),
    ("法法轮轮功功", "法轮功"),
    ("法轮轮功", "法轮功"),
    ("sh11111t shiiit", "shit"),
    // Marks.
    ("fück", "fuck"),
    ("f\u{308}u\u{308}c\u{308}k\u{308}", "fuck"),
    ("f̷u̷c̷k̷", "fuck"),
    ("f̶̢̛u̸̧̕c̵̨͝k̴̡̚", "fuck"),
    ("shït", "shit"),
    ("ƒüčķ", "fuck"),
    ("şhıţ", "shit"),
    ("đick", "dick"),
    ("f⃣u⃣c⃣k⃣", "fuck"),
    ("法\u{302}轮\u{302}功\u{302}", "法轮功"),
    // Chinese, the other way of writing, and both at once.
    ("法輪功", "法轮功"),
    ("習近平", "习近平"),
    ("賭博网站", "赌博"),
    ("代開發票", "代开发票"),
    ("法 輪 功", "法轮功"),
    ("賭\u{200b}博", "赌博"),
    ("裸*聊", "裸聊"),
    ("他说：操你妈，走了", "操你妈"),
    ("㊅四", "六四"),
    ("8⑨⑥④", "8964"),
    // Other scripts, as they stand.
    ("вот сука", "сука"),
    ("СУКА!", "сука"),
    ("с у к а", "сука"),
    ("お前ばかだ", "ばか"),
    ("ば、か", "ばか"),
    ("개시발", "시발"),
    ("시\u{200b}발", "시발"),
    ("ไอ้ควาย", "ควาย"),
    ("يا كلب", "كلب"),
    ("يا كَلْب", "كلب"),
    ("كـــلـــب", "كلب"),
    ("तू हरामी है", "हरामी"),
    ("ΜΑΛΑΚΑ malaka", "malaka"),
];

#[test]
fn disguises_are_seen_through() {
    let list = compile(LIST);
    let wrong: Vec<_> = DISGUISES
        .iter()
        .filter_map(|(text, word)| {
            let found = found(&list, text);
            (found.as_deref() != Some(word)).then_some((text, word, found))
        })
        .collect();
    assert!(DISGUISES.len() >= 60);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `Screen::screen`, strict profile, against the same list.
const INNOCENTS: &[&str] = &[
    // Words in words.
    "class",
    "Essex",
    "good",
    "Scunthorpe",
    "Sussex",
    "assassin",
    "assess the situation",
    "shiitake",
    "Dickens",
    "hello",
    "shell",
    "peniston",
    "cockpit",
    "scummy pools",
    "Matsushita",
    "sextant",
    "Hitchcock",
    "pass the glass",
    "mishit the ball",
    "bass guitar",
    "therapist",
    "analysis",
    // Words beside words.
    "class hit",
    "he'll be back",
    "she'll go",
    "pus hit",
    "as soon as",
    "pas s",
    "push it",
    "a sum",
    "C L A S S",
    "b a s s",
    "g r a s s",
    "wish it, class",
    "as, so",
    "kill. yourself is a word",
    "this, hit",
    "Is it as simple?",
    "us us",
    // Digits and signs.
    "Samsung A55",
    "19896",
    "189645",
    "89.64元",
    "2nd 3rd 4th",
    "666666",
    "233333",
    "100%",
    "p5 boss",
    "mp3",
    "4chan",
    "@assistant",
    "$100",
    "3D",
    "1314520",
    "b2b",
    "H2O",
    // Repeats that are spelling.
    "good food",
    "bookkeeper",
    "heel",
    "deck hands",
    "committee",
    "hmmmm",
    "aaaa",
    "哈哈哈哈哈",
    "soooo coooool",
    "nooooo",
    "loool",
    // Chinese: neighbours that only meet.
    "前方高能，非战斗人员请迅速撤离",
    "学习，近来平安",
    "想法，轮到功课",
    "他有想法 轮到功课了",
    "主播好帅",
    "上海自来水来自海上",
    "操作你妈妈的手机",
    "他妈妈操心",
    "傻，逼近了",
    "赌气，博士",
    "六月四日",
    "十六，四十",
    "聊天裸眼",
    "第八十九集",
    "這是一個測試",
    "春節快樂",
    "太傻 逼得他走",
    "这游戏好玩",
    // Other languages.
    "สวัสดีครับ",
    "ขอบคุณมาก",
    "ความรัก",
    "Xin chào các bạn",
    "Tôi yêu Việt Nam",
    "Cảm ơn rất nhiều",
    "नमस्ते दोस्तों",
    "आप कैसे हैं",
    "मैं हिंदी बोलता हूँ",
    "مرحبا بالعالم",
    "كيف حالك",
    "السلام عليكم",
    "كلبه",
    "こんにちは世界",
    "ばら、から",
    "今日はいい天気",
    "안녕하세요",
    "다시 발표",
    "사랑해요",
    "Привет мир",
    "рассуканый",
    "Καλημέρα κόσμε",
    "שלום עולם",
    "Grüße aus München",
    "ça va très bien",
    "El Niño",
    "İstanbul",
    "ﷺ",
    "Nguyễn Thị Sáu",
    "Jürgen Klopp",
    "O'Hellman",
    "ありがとう ✨",
    "👨‍👩‍👧‍👦 family",
    "🇺🇸 🇨🇳",
    "1️⃣ 2️⃣",
    "¯\\_(ツ)_/¯",
    "(╯°□°)╯︵ ┻━┻",
    "сор в избе",
    "рот",
];

#[test]
fn innocents_pass() {
    let list = compile(LIST);
    let wrong: Vec<_> =
        INNOCENTS.iter().filter_map(|text| found(&list, text).map(|word| (text, word))).collect();
    assert!(INNOCENTS.len() >= 60);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Words of which only the marks tell one from another, in the profile that keeps them.
#[test]
fn the_marks_profile_tells_words_by_their_marks() {
    let marks = ListOptions { profile: Profile::Marks, ..ListOptions::default() };
    let list = WordList::compile(&marks, "lồn\nđụ\nhóa\nควาย\nहरामी\n").expect("a list");
    for (text, word) in [
        ("cái lồn", Some("lồn")),
        ("LỒN", Some("lồn")),
        ("l\u{6f}\u{302}\u{300}n", Some("lồn")),
        ("l\u{200b}ồ\u{200b}n", Some("lồn")),
        ("l.ồ.n", Some("lồn")),
        ("lồồồn", Some("lồn")),
        ("đụ", Some("đụ")),
        ("ควาย", Some("ควาย")),
        ("हरामी", Some("हरामी")),
        ("lon bia", None),
        ("lớn lên", None),
        ("lộn xộn", None),
        ("du lịch", None),
        ("hoa hồng", None),
        ("l\u{300}ồn", None),
        ("ความ", None),
        ("हराम", None),
    ] {
        assert_eq!(found(&list, text).as_deref(), word, "{text}");
    }
}

/// A mark behind the last letter of a script in which marks are vowels.
#[test]
fn a_word_does_not_end_in_the_middle_of_a_syllable() {
    let list = compile("กา\nराम\n");
    for (text, word) in
        [("กา", Some("กา")), ("กา\u{e48}", None), ("राम", Some("राम")), ("रामे", None), ("रामा", None)]
    {
        assert_eq!(found(&list, text).as_deref(), word, "{text}");
    }
}

/// Patterns, one list for each, so that it is seen which one speaks.
#[test]
fn ways_out_of_the_room_are_found() {
    let patterns = [
        (
            "!link",
            &[
                "www.example.com",
                "go to example.com now",
                "http://1.2.3.4/x",
                "https://t.me/abc",
                "t.me/abc",
                "w w w . x . c o m",
                "x x x . c o m",
                "baidu点com",
                "baidu dot com",
                "example . com",
                "ｂａｉｄｕ．ｃｏｍ",
                "看baidu。com吧",
                "www.abc.top",
                "WWW。XYZ。NET",
                "b\u{200b}aidu.c\u{200b}om",
                "abc-def.cn/path",
                "ⓦⓦⓦ.ⓐⓑ.ⓒⓞⓜ",
                "sub.example.com.cn",
                "youtu.be/abc",
            ][..],
            &[
                "nice.me too",
                "wow...com on",
                "end. Net result",
                "3.14",
                "e.g. this",
                "v1.2.3",
                "good.top 10",
                "node.js",
                "www",
                "comedy.",
                "a.b",
                "什么。来了",
                "example.company",
                "ok.",
                "点评一下",
                "dot dot dot",
                "wwwwww",
                "http",
                "99.9%",
            ][..],
        ),
        (
            "!email",
            &[
                "abc@qq.com",
                "mail a.b-c@example.co.uk",
                "ＡＢＣ＠ＱＱ．ＣＯＭ",
                "abc @ qq . com",
                "x@mail.example.org",
                "a b c @ q q . c o m",
            ],
            &["@user hi", "me @ home", "5@1", "look @me.", "a@b", "@foo.com"],
        ),
        (
            "!phone",
            &[
                "13800138000",
                "138 0013 8000",
                "138-0013-8000",
                "+86 13912345678",
                "8613912345678",
                "1 3 9 1 2 3 4 5 6 7 8",
                "一三九一二三四五六七八",
                "１３９１２３４５６７８",
                "①③⑨①②③④⑤⑥⑦⑧",
                "call +44 20 7946 0958",
                "打13912345678",
            ],
            &[
                "66666666666",
                "13333333333",
                "1314520",
                "13145201314",
                "2024-01-01 10:00",
                "100000000000",
                "1700000000000",
                "第1391集2345678",
                "12345678901",
                "3.1415926535",
                "10, 20, 30, 40, 50, 60",
            ],
        ),
        (
            "!contact",
            &[
                "加V信 abc123",
                "加v abc_1234",
                "微信号：abc12345",
                "薇信 138001",
                "vx: hello2024",
                "VX12345678",
                "qq 1234567",
                "QQ群：987654321",
                "加Q 1 2 3 4 5 6 7",
                "扣扣123456",
                "tg @spam_bot",
                "wechat: dan-mu99",
                "威 信 abc123",
                "ＱＱ：１２３４５６",
                "加我微信abc12345",
            ],
            &[
                "微信支付",
                "我用wechat every day",
                "qq音乐好听",
                "加我好友",
                "qq666666",
                "加油 123456",
                "企鹅好可爱",
                "vx",
                "群号多少",
                "1234567",
                "加v吧大家",
                "faqq1234567",
                "微信 2333333",
            ],
        ),
    ];
    for (pattern, caught, innocent) in patterns {
        let list = compile(pattern);
        let missed: Vec<_> = caught.iter().filter(|text| found(&list, text).is_none()).collect();
        let wrong: Vec<_> = innocent.iter().filter(|text| found(&list, text).is_some()).collect();
        assert!(missed.is_empty() && wrong.is_empty(), "{pattern}: missed {missed:?}, wrong {wrong:?}");
    }
}
